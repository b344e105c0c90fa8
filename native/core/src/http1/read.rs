//! Reads one response: status and headers, then a body by length, by chunks, or up to the connection's end.
use memchr::memchr;

const HEAD_BOUND: usize = 64 * 1024;
const CHUNK_LINE_BOUND: usize = 4096;
const HEADERS: usize = 64;

/// The response breaks the protocol, or is larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The head is not HTTP/1.
    #[error("the engine's answer is not HTTP/1.1")]
    Head,
    /// The head is over its bound.
    #[error("the head of the engine's answer is larger than {HEAD_BOUND} bytes")]
    HeadTooLarge,
    /// `Content-Length` contradicts itself or `Transfer-Encoding`.
    #[error("the engine's answer does not say clearly how long it is")]
    Length,
    /// A chunk's size or end is wrong.
    #[error("the engine's answer has a broken chunk")]
    Chunk,
}

/// What the head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Lower case, without parameters.
    pub content_type: String,
    /// The connection may carry another request after this answer.
    pub keep_alive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Sized(u64),
    UntilClose,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Done,
}

/// What one step found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// All input was used; more is needed.
    More,
    /// The head is complete: see [`Reader::head`].
    Head,
    /// A piece of the body.
    Body(&'a [u8]),
    /// The answer is complete; what is left of the input does not belong to it.
    End,
}

/// Reads one response.
#[derive(Debug)]
pub struct Reader {
    state: State,
    partial: Vec<u8>,
    head: Option<Head>,
    to_head_request: bool,
}

impl Reader {
    /// `to_head_request`: the request's method was HEAD, so that no body comes whatever the headers say.
    pub const fn new(to_head_request: bool) -> Self {
        Self { state: State::Head, partial: Vec::new(), head: None, to_head_request }
    }

    /// The head, once [`Step::Head`] was given.
    pub const fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The answer is complete.
    pub fn done(&self) -> bool {
        self.state == State::Done
    }

    /// The connection's end would be the answer's proper end now.
    pub fn ends_at_close(&self) -> bool {
        self.state == State::UntilClose
    }

    /// Take from the front of `input`, which is advanced past what was used.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, Broken> {
        loop {
            match self.state {
                State::Done => return Ok(Step::End),
                _ if input.is_empty() => return Ok(Step::More),
                State::Head => {
                    if self.take_head(input)? {
                        return Ok(Step::Head);
                    }
                }
                State::UntilClose => return Ok(Step::Body(std::mem::take(input))),
                State::Sized(left) => {
                    let (piece, left) = split(input, left);
                    self.state = if left == 0 { State::Done } else { State::Sized(left) };
                    return Ok(Step::Body(piece));
                }
                State::ChunkSize => {
                    let Some(size) = self.line(input)?.map(|line| chunk_size(&line)).transpose()? else {
                        return Ok(Step::More);
                    };
                    self.state = if size == 0 { State::Trailers } else { State::Chunk(size) };
                }
                State::Chunk(left) => {
                    let (piece, left) = split(input, left);
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    return Ok(Step::Body(piece));
                }
                State::ChunkEnd => match self.line(input)? {
                    None => return Ok(Step::More),
                    Some(line) if line.is_empty() => self.state = State::ChunkSize,
                    Some(_) => return Err(Broken::Chunk),
                },
                State::Trailers => match self.line(input)? {
                    None => return Ok(Step::More),
                    Some(line) if line.is_empty() => self.state = State::Done,
                    Some(_) => {}
                },
            }
        }
    }

    /// A line without its end, once it is whole.
    fn line(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, Broken> {
        let at = memchr(b'\n', input);
        let taken = at.map_or(input.len(), |at| at + 1);
        if self.partial.len() + taken > CHUNK_LINE_BOUND {
            return Err(Broken::Chunk);
        }
        self.partial.extend_from_slice(&input[..taken]);
        *input = &input[taken..];
        if at.is_none() {
            return Ok(None);
        }
        let mut line = std::mem::take(&mut self.partial);
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }

    /// True when the head is complete; an interim answer (1xx) is passed over.
    fn take_head(&mut self, input: &mut &[u8]) -> Result<bool, Broken> {
        let before = self.partial.len();
        let taken = input.len().min(HEAD_BOUND.saturating_sub(before));
        self.partial.extend_from_slice(&input[..taken]);
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&self.partial) {
            Ok(httparse::Status::Complete(length)) => {
                let status = response.code.ok_or(Broken::Head)?;
                let version = response.version.ok_or(Broken::Head)?;
                let parsed = Parsed::read(status, version, response.headers)?;
                *input = &input[length - before..];
                self.partial.clear();
                if (100..200).contains(&status) {
                    return Ok(false);
                }
                self.state = parsed.state(self.to_head_request)?;
                self.head = Some(parsed.head);
                Ok(true)
            }
            Ok(httparse::Status::Partial) if taken < input.len() => Err(Broken::HeadTooLarge),
            Ok(httparse::Status::Partial) => {
                *input = &[];
                Ok(false)
            }
            Err(_) => Err(Broken::Head),
        }
    }
}

struct Parsed {
    head: Head,
    length: Option<u64>,
    chunked: bool,
    coded: bool,
}

impl Parsed {
    fn read(status: u16, version: u8, headers: &[httparse::Header<'_>]) -> Result<Self, Broken> {
        let mut found = Self {
            head: Head { status, content_type: String::new(), keep_alive: version == 1 },
            length: None,
            chunked: false,
            coded: false,
        };
        for header in headers {
            let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
            if header.name.eq_ignore_ascii_case("content-length") {
                let length = digits(value).ok_or(Broken::Length)?;
                if found.length.is_some_and(|before| before != length) {
                    return Err(Broken::Length);
                }
                found.length = Some(length);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                found.coded = true;
                found.chunked = value.eq_ignore_ascii_case("chunked");
            } else if header.name.eq_ignore_ascii_case("connection") {
                for token in value.split(',').map(str::trim) {
                    if token.eq_ignore_ascii_case("close") {
                        found.head.keep_alive = false;
                    } else if token.eq_ignore_ascii_case("keep-alive") && version == 0 {
                        found.head.keep_alive = true;
                    }
                }
            } else if header.name.eq_ignore_ascii_case("content-type") {
                let kind = value.split(';').next().unwrap_or_default().trim();
                found.head.content_type = kind.to_ascii_lowercase();
            }
        }
        Ok(found)
    }

    fn state(&self, to_head_request: bool) -> Result<State, Broken> {
        if to_head_request || matches!(self.head.status, 204 | 304) {
            return Ok(State::Done);
        }
        // RFC 9112, section 6.3: both at once is how requests are smuggled.
        match (self.coded, self.chunked, self.length) {
            (true, _, Some(_)) | (true, false, None) => Err(Broken::Length),
            (true, true, None) => Ok(State::ChunkSize),
            (false, _, Some(0)) => Ok(State::Done),
            (false, _, Some(length)) => Ok(State::Sized(length)),
            (false, _, None) => Ok(State::UntilClose),
        }
    }
}

fn split<'a>(input: &mut &'a [u8], left: u64) -> (&'a [u8], u64) {
    let take = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
    let (piece, rest) = input.split_at(take);
    *input = rest;
    (piece, left - take as u64)
}

fn digits(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn chunk_size(line: &[u8]) -> Result<u64, Broken> {
    let end = memchr(b';', line).unwrap_or(line.len());
    let text = std::str::from_utf8(&line[..end]).map_err(|_| Broken::Chunk)?.trim_end_matches([' ', '\t']);
    if text.is_empty() || text.len() > 15 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Broken::Chunk);
    }
    u64::from_str_radix(text, 16).map_err(|_| Broken::Chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Answer {
        status: u16,
        keep_alive: bool,
        body: Vec<u8>,
        done: bool,
        left: usize,
    }

    fn read(pieces: &[&[u8]]) -> Result<Answer, Broken> {
        let mut reader = Reader::new(false);
        let (mut body, mut left) = (vec![], 0);
        for piece in pieces {
            let mut input = *piece;
            loop {
                match reader.step(&mut input)? {
                    Step::More => break,
                    Step::Head => {}
                    Step::Body(bytes) => body.extend_from_slice(bytes),
                    Step::End => {
                        left += input.len();
                        break;
                    }
                }
            }
        }
        let head = reader.head().ok_or(Broken::Head)?;
        Ok(Answer { status: head.status, keep_alive: head.keep_alive, body, done: reader.done(), left })
    }

    const CHUNKED: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n5;ext=1\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nX-Trailer: 1\r\n\r\n";

    #[test]
    fn chunks_at_every_cut() {
        let whole = Answer { status: 200, keep_alive: true, body: b"hello world".to_vec(), done: true, left: 0 };
        for at in 0..CHUNKED.len() {
            assert_eq!(read(&[&CHUNKED[..at], &CHUNKED[at..]]).as_ref(), Ok(&whole), "cut at {at}");
        }
        let bytes: Vec<&[u8]> = CHUNKED.chunks(1).collect();
        assert_eq!(read(&bytes), Ok(whole));
    }

    #[test]
    fn lengths_and_ends() {
        let sized = read(&[b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nabXY"]);
        let expected = Answer { status: 200, keep_alive: false, body: b"ab".to_vec(), done: true, left: 2 };
        assert_eq!(sized, Ok(expected));
        let old = read(&[b"HTTP/1.0 200 OK\r\n\r\nab"]);
        assert_eq!(old, Ok(Answer { status: 200, keep_alive: false, body: b"ab".to_vec(), done: false, left: 0 }));
        let none = read(&[b"HTTP/1.1 204 No Content\r\n\r\n"]);
        assert_eq!(none, Ok(Answer { status: 204, keep_alive: true, body: vec![], done: true, left: 0 }));
    }

    #[test]
    fn what_is_unclear_is_refused() {
        for (bytes, broken) in [
            (&b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n"[..], Broken::Length),
            (b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\n", Broken::Length),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n", Broken::Length),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n", Broken::Length),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", Broken::Chunk),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n", Broken::Chunk),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n", Broken::Chunk),
            (b"SSH-2.0-x\r\n\r\n", Broken::Head),
        ] {
            assert_eq!(read(&[bytes]), Err(broken), "{}", String::from_utf8_lossy(bytes));
        }
        let huge = [b"HTTP/1.1 200 OK\r\nx: ".as_slice(), &vec![b'a'; HEAD_BOUND]].concat();
        assert_eq!(read(&[&huge]), Err(Broken::HeadTooLarge));
    }
}
