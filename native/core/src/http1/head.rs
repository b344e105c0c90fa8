use super::Error;
use httparse::{EMPTY_HEADER, Response, Status};
use memchr::memchr_iter;

/// The most bytes that a head may have.
pub(super) const MAX_HEAD: usize = 64 * 1024;
const MAX_FIELDS: usize = 100;

/// What the head of a response says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// 200 to 999: interim answers are skipped.
    pub status: u16,
    /// Value of `content-type`, empty where there is none.
    pub content_type: String,
    /// How the body ends.
    pub(super) framing: Framing,
    /// The connection may carry another request afterwards.
    pub(super) keep_alive: bool,
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(u64),
    /// With the last chunk.
    Chunked,
    /// With the connection.
    Close,
}

impl Head {
    /// The media type without parameters, lower case.
    pub fn media_type(&self) -> String {
        self.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Read a head that is all there. `bodiless` is for the answer to `HEAD`.
    pub(super) fn parse(bytes: &[u8], bodiless: bool) -> Result<Self, Error> {
        let mut fields = [EMPTY_HEADER; MAX_FIELDS];
        let mut response = Response::new(&mut fields);
        match response.parse(bytes) {
            Ok(Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(Error::HeadTooLong),
            Ok(Status::Partial) | Err(_) => return Err(Error::BadHead),
        }
        let (Some(status), Some(version)) = (response.code, response.version) else {
            return Err(Error::BadHead);
        };
        let mut content_type = None;
        let mut length = None;
        let mut chunked = false;
        let (mut close, mut keep) = (false, false);
        for field in response.headers.iter() {
            let name = field.name;
            if name.eq_ignore_ascii_case("content-type") {
                content_type.get_or_insert_with(|| String::from_utf8_lossy(field.value).into_owned());
            } else if name.eq_ignore_ascii_case("content-length") {
                let value = digits(field.value)?;
                if length.is_some_and(|earlier| earlier != value) {
                    return Err(Error::BadLength);
                }
                length = Some(value);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                if chunked || !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(Error::BadLength);
                }
                chunked = true;
            } else if name.eq_ignore_ascii_case("connection") {
                for token in field.value.split(|byte| *byte == b',') {
                    close |= token.trim_ascii().eq_ignore_ascii_case(b"close");
                    keep |= token.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
        if chunked && (length.is_some() || version == 0) {
            return Err(Error::BadLength);
        }
        let framing = if bodiless || matches!(status, 100..=199 | 204 | 304) {
            Framing::Length(0)
        } else if chunked {
            Framing::Chunked
        } else {
            length.map_or(Framing::Close, Framing::Length)
        };
        Ok(Self {
            status,
            content_type: content_type.unwrap_or_default(),
            framing,
            keep_alive: !close && (version == 1 || keep) && framing != Framing::Close,
        })
    }
}

/// Where the blank line after a head ends, looking from `from` on; lines may end with a bare LF.
pub(super) fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    // The blank line may have begun up to two bytes before what is new.
    let from = from.saturating_sub(2);
    memchr_iter(b'\n', &bytes[from..]).map(|at| from + at).find_map(|at| match bytes[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

fn digits(value: &[u8]) -> Result<u64, Error> {
    let value = value.trim_ascii();
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Error::BadLength);
    }
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or(Error::BadLength)
}
