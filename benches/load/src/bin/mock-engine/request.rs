//! One HTTP/1.1 request.

/// What the stand-in needs of a request.
pub struct Request {
    /// `GET`, `POST`.
    pub method: String,
    /// With its query.
    pub path: String,
    /// What came as `Authorization: Bearer` or `X-Api-Key`.
    pub key: Option<String>,
    /// The client wants the connection closed afterwards.
    pub close: bool,
    /// Whole.
    pub body: Vec<u8>,
}

impl Request {
    /// Take one whole request from the front of `buffer`; none while it is incomplete, an error if it never will be.
    pub fn take(buffer: &mut Vec<u8>) -> Result<Option<Self>, ()> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut parsed = httparse::Request::new(&mut headers);
        let head = match parsed.parse(buffer) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(()),
        };
        let mut request = Self {
            method: parsed.method.unwrap_or("").to_owned(),
            path: parsed.path.unwrap_or("").to_owned(),
            key: None,
            close: parsed.version == Some(0),
            body: Vec::new(),
        };
        let mut length = 0;
        for header in parsed.headers.iter() {
            let value = std::str::from_utf8(header.value).map_err(|_| ())?.trim();
            match header.name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(|_| ())?,
                "transfer-encoding" => return Err(()),
                "connection" => request.close = value.eq_ignore_ascii_case("close"),
                "authorization" => request.key = value.strip_prefix("Bearer ").map(str::to_owned),
                "x-api-key" => request.key = Some(value.to_owned()),
                _ => {}
            }
        }
        if buffer.len() < head + length {
            return Ok(None);
        }
        request.body = buffer[head..head + length].to_vec();
        buffer.drain(..head + length);
        Ok(Some(request))
    }
}
