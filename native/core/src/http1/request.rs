use std::fmt::Write as _;

/// A request that will be sent whole.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// As in `POST`.
    pub method: &'a str,
    /// Path with query.
    pub path: &'a str,
    /// Value of `host`.
    pub host: &'a str,
    /// Bearer token; empty for none.
    pub secret: &'a str,
    /// JSON, where there is a body.
    pub body: Option<&'a [u8]>,
    /// Value of `accept`.
    pub accept: &'a str,
}

/// A part of a request's head holds a byte that would end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request's {0} holds a character that a head may not have")]
pub struct BadToken(pub &'static str);

impl Request<'_> {
    /// The whole request, head and body.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BadToken> {
        let body = self.body.unwrap_or_default();
        let mut bytes = self.head(self.body.map(<[u8]>::len), body.len())?;
        bytes.extend_from_slice(body);
        Ok(bytes)
    }

    /// The whole request around `body`, whatever [`Request::body`] says: `body` moves up in its own memory, of which no
    /// second copy is made where it has room for the head.
    pub fn around(&self, mut body: Vec<u8>) -> Result<Vec<u8>, BadToken> {
        let head = self.head(Some(body.len()), 0)?;
        let length = body.len();
        body.resize(length + head.len(), 0);
        body.copy_within(..length, head.len());
        body[..head.len()].copy_from_slice(&head);
        Ok(body)
    }

    /// The head for a body of `length` bytes, with `room` for more after it.
    fn head(&self, length: Option<usize>, room: usize) -> Result<Vec<u8>, BadToken> {
        let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        for (name, value, may_be_empty) in [
            ("method", self.method, false),
            ("path", self.path, false),
            ("host", self.host, false),
            ("secret", self.secret, true),
        ] {
            if !visible(value) || (value.is_empty() && !may_be_empty) {
                return Err(BadToken(name));
            }
        }
        let mut head = String::with_capacity(256 + room);
        // Writing to a String cannot fail.
        let _ = write!(
            head,
            "{} {} HTTP/1.1\r\nhost: {}\r\naccept: {}\r\n",
            self.method, self.path, self.host, self.accept
        );
        if !self.secret.is_empty() {
            let _ = write!(head, "authorization: Bearer {}\r\n", self.secret);
        }
        if let Some(length) = length {
            let _ = write!(head, "content-type: application/json\r\ncontent-length: {length}\r\n");
        }
        head.push_str("\r\n");
        Ok(head.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_whole_and_refuses_injected_lines() {
        let request = Request {
            method: "POST",
            path: "/v1/x",
            host: "127.0.0.1:1",
            secret: "s",
            body: Some(b"{}"),
            accept: "*/*",
        };
        assert_eq!(
            request.to_bytes().unwrap(),
            b"POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:1\r\naccept: */*\r\nauthorization: Bearer s\r\n\
              content-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
        );
        assert_eq!(Request { secret: "a\r\nx: y", ..request }.to_bytes(), Err(BadToken("secret")));
        assert_eq!(Request { path: "/a b", ..request }.to_bytes(), Err(BadToken("path")));
        let bare = Request { method: "GET", body: None, secret: "", ..request }.to_bytes().unwrap();
        assert_eq!(bare, b"GET /v1/x HTTP/1.1\r\nhost: 127.0.0.1:1\r\naccept: */*\r\n\r\n");
    }
}
