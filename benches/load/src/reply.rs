//! The client's side of one HTTP/1.1 answer: head, length or chunks, and the events of a stream. No I/O.

use memchr::{memchr, memmem};

use crate::{Stamp, read_stamps};

/// How far the body reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Head,
    Length(usize),
    /// Between chunks: a size line comes next.
    Size,
    /// Inside one, with so many bytes to come, then its line end.
    Chunk(usize),
    /// After the last one: trailers up to the empty line.
    Trailer,
    End,
}

/// What one answer has told so far.
pub struct Reply {
    raw: Vec<u8>,
    at: usize,
    state: Body,
    text: Vec<u8>,
    stream: bool,
    /// HTTP status; 0 before the head.
    pub status: u16,
    /// The server closes after this answer.
    pub close: bool,
    /// Events seen, `[DONE]` and comments not counted.
    pub events: u64,
    /// `[DONE]` was seen.
    pub done: bool,
    /// A finish reason was seen.
    pub finished: bool,
    /// An error object was seen in the stream.
    pub failed: bool,
    /// Bytes of the body, without chunk framing.
    pub bytes: u64,
}

impl Reply {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self {
            raw: Vec::with_capacity(64 * 1024),
            at: 0,
            state: Body::Head,
            text: Vec::with_capacity(64 * 1024),
            stream: false,
            status: 0,
            close: false,
            events: 0,
            done: false,
            finished: false,
            failed: false,
            bytes: 0,
        }
    }

    /// Ready for the next answer on the same connection; buffers are kept.
    pub fn reset(&mut self) {
        let (raw, text) = (std::mem::take(&mut self.raw), std::mem::take(&mut self.text));
        *self = Self { raw, text, ..Self::empty() };
        self.raw.clear();
        self.text.clear();
    }

    fn empty() -> Self {
        let mut reply = Self::new();
        reply.raw = Vec::new();
        reply.text = Vec::new();
        reply
    }

    /// Where to read into.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.raw
    }

    /// Whether the whole answer is here.
    pub fn ended(&self) -> bool {
        self.state == Body::End
    }

    /// The body of an answer that is no stream.
    pub fn body(&self) -> &[u8] {
        &self.text
    }

    /// Take in what was read; hand every stamp found to `found`.
    ///
    /// # Errors
    /// What was wrong with the answer, in words.
    pub fn advance(&mut self, mut found: impl FnMut(Stamp)) -> Result<(), String> {
        if self.state == Body::Head && !self.head()? {
            return Ok(());
        }
        self.unframe()?;
        if self.at == self.raw.len() {
            self.raw.clear();
            self.at = 0;
        }
        if self.stream {
            self.read_events(&mut found);
        } else if self.ended() {
            if let Some(value) = string(&self.text, b"\"content\":") {
                read_stamps(value, found);
            }
            self.finished = string(&self.text, b"\"finish_reason\":").is_some();
        }
        Ok(())
    }

    fn head(&mut self) -> Result<bool, String> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(&self.raw) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(false),
            Err(error) => return Err(format!("bad head: {error}")),
        };
        self.status = response.code.unwrap_or(0);
        self.state = Body::Length(0);
        for header in response.headers.iter() {
            let value = std::str::from_utf8(header.value).unwrap_or("");
            match header.name.to_ascii_lowercase().as_str() {
                "content-length" => self.state = Body::Length(value.trim().parse().map_err(|_| "bad length")?),
                "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => self.state = Body::Size,
                "connection" => self.close = value.eq_ignore_ascii_case("close"),
                "content-type" => self.stream = value.starts_with("text/event-stream"),
                _ => {}
            }
        }
        self.at = length;
        Ok(true)
    }

    fn unframe(&mut self) -> Result<(), String> {
        loop {
            let rest = &self.raw[self.at..];
            match self.state {
                Body::Length(left) => {
                    let taken = left.min(rest.len());
                    self.text.extend_from_slice(&rest[..taken]);
                    self.bytes += taken as u64;
                    self.at += taken;
                    self.state = if taken == left { Body::End } else { Body::Length(left - taken) };
                    return Ok(());
                }
                Body::Size => {
                    let Some(end) = memchr(b'\n', rest) else { return Ok(()) };
                    let line = std::str::from_utf8(&rest[..end]).map_err(|_| "bad chunk size")?;
                    let size = line.split(';').next().unwrap_or("").trim();
                    let size = usize::from_str_radix(size, 16).map_err(|_| format!("bad chunk size {line:?}"))?;
                    self.at += end + 1;
                    self.state = if size == 0 { Body::Trailer } else { Body::Chunk(size) };
                }
                Body::Chunk(0) => {
                    if rest.len() < 2 {
                        return Ok(());
                    }
                    self.at += 2;
                    self.state = Body::Size;
                }
                Body::Chunk(left) => {
                    if rest.is_empty() {
                        return Ok(());
                    }
                    let taken = left.min(rest.len());
                    self.text.extend_from_slice(&rest[..taken]);
                    self.bytes += taken as u64;
                    self.at += taken;
                    self.state = Body::Chunk(left - taken);
                }
                Body::Trailer => {
                    let Some(end) = memchr(b'\n', rest) else { return Ok(()) };
                    let empty = rest[..end].trim_ascii().is_empty();
                    self.at += end + 1;
                    if empty {
                        self.state = Body::End;
                    }
                }
                Body::Head | Body::End => return Ok(()),
            }
        }
    }

    fn read_events(&mut self, found: &mut impl FnMut(Stamp)) {
        let mut start = 0;
        while let Some(length) = memchr(b'\n', &self.text[start..]) {
            let line = &self.text[start..start + length];
            start += length + 1;
            let Some(data) = line.strip_prefix(b"data:") else { continue };
            let data = data.trim_ascii();
            if data == b"[DONE]" {
                self.done = true;
                continue;
            }
            self.events += 1;
            if let Some(value) = string(data, b"\"content\":") {
                read_stamps(value, &mut *found);
            }
            self.finished |= string(data, b"\"finish_reason\":").is_some();
            self.failed |= data.starts_with(b"{\"error\"");
        }
        self.text.drain(..start);
    }
}

/// The string after `key`, which holds no escapes here; none if the value is something else, such as null.
fn string<'a>(json: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let value = json[memmem::find(json, key)? + key.len()..].trim_ascii_start().strip_prefix(b"\"")?;
    memchr(b'"', value).map(|end| &value[..end])
}

impl Default for Reply {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
        2a\r\ndata: {\"delta\":{\"content\":\"0@10 1@20 \"}}\n\n\r\n\
        20\r\ndata: {\"finish_reason\":\"stop\"}\n\n\r\n\
        e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

    #[test]
    fn a_stream_reads_the_same_at_every_split() {
        for cut in 0..STREAM.len() {
            let mut reply = Reply::new();
            let mut seen = Vec::new();
            for part in [&STREAM[..cut], &STREAM[cut..]] {
                reply.buffer().extend_from_slice(part);
                reply.advance(|stamp| seen.push((stamp.sequence, stamp.sent_ns))).expect("a sound answer");
            }
            assert_eq!(seen, [(0, 10), (1, 20)], "cut at {cut}");
            assert!(reply.ended() && reply.done && reply.finished && !reply.failed);
            assert_eq!((reply.status, reply.events), (200, 2));
        }
    }

    #[test]
    fn a_plain_answer_gives_its_stamps_at_the_end() {
        let mut reply = Reply::new();
        let body = r#"{"choices":[{"finish_reason":"stop","message":{"content":"0@5 1@6 "}}]}"#;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        reply.buffer().extend_from_slice(head.as_bytes());
        reply.buffer().extend_from_slice(body.as_bytes());
        let mut seen = 0;
        reply.advance(|_| seen += 1).expect("a sound answer");
        assert!(reply.ended() && reply.close && reply.finished);
        assert_eq!(seen, 2);
    }
}
