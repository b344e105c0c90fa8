//! The event stream of `text/event-stream`: an incremental reader that copies nothing while whole events lie inside one
//! fed slice, and the few lines that write one.
use memchr::{memchr, memchr2};

/// The longest line, and the largest joined payload, that a reader takes unless told otherwise.
pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

/// What a stream consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// A message: the name of its `event:` field (empty where it has none) and its data, lines joined by LF.
    Message { event: &'a [u8], data: &'a [u8] },
    /// A comment line: the other side lives.
    Comment,
}

/// A line or a message is longer than the reader's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {limit} bytes")]
pub struct TooLong {
    /// Bytes.
    pub limit: usize,
}

/// Reads a stream that comes in pieces cut anywhere.
///
/// Lines end with LF, CRLF or CR; a byte order mark at the start is skipped; `id` and `retry` mean nothing here. A line
/// `error: …`, which old llama.cpp servers write, is a message named `error`.
#[derive(Debug)]
pub struct Reader {
    limit: usize,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// Data of the open message that had to be kept.
    data: Vec<u8>,
    has_data: bool,
    event: Vec<u8>,
    /// The last byte was CR: an LF that follows belongs to it.
    after_cr: bool,
    /// Nothing was read yet: a byte order mark may come.
    fresh: bool,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl Reader {
    /// A reader whose lines and messages have at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            event: Vec::new(),
            after_cr: false,
            fresh: true,
        }
    }

    /// Read `input`; `sink` gets what is complete. An error of the sink ends the reading and is returned.
    pub fn feed<E, F>(&mut self, input: &[u8], sink: &mut F) -> Result<(), E>
    where
        E: From<TooLong>,
        F: FnMut(Item<'_>) -> Result<(), E>,
    {
        let mut rest = input;
        // The only data line of the open message so far, while it lies inside `input`.
        let mut lent: Option<&[u8]> = None;
        while !rest.is_empty() {
            if self.after_cr {
                self.after_cr = false;
                if rest[0] == b'\n' {
                    rest = &rest[1..];
                    continue;
                }
            }
            if let Some((data, after)) = self.whole_message(rest, lent) {
                if data.len() > self.limit {
                    return Err(TooLong { limit: self.limit }.into());
                }
                rest = after;
                sink(Item::Message { event: b"", data })?;
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.grow_line(rest)?;
                break;
            };
            self.after_cr = rest[end] == b'\r';
            let (piece, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            if self.line.is_empty() {
                if piece.len() > self.limit {
                    return Err(TooLong { limit: self.limit }.into());
                }
                match self.take(piece, &mut lent, sink)? {
                    Some(value) if !self.has_data && lent.is_none() => lent = Some(value),
                    value => self.keep_all(&mut lent, value)?,
                }
            } else {
                self.grow_line(piece)?;
                let line = std::mem::take(&mut self.line);
                let value = self.take(&line, &mut lent, sink)?;
                self.keep_all(&mut lent, value)?;
                self.line = line;
                self.line.clear();
            }
        }
        if let Some(data) = lent {
            self.keep(data)?;
        }
        Ok(())
    }

    /// The input is over: an open message is complete.
    pub fn finish<E, F>(&mut self, sink: &mut F) -> Result<(), E>
    where
        E: From<TooLong>,
        F: FnMut(Item<'_>) -> Result<(), E>,
    {
        let line = std::mem::take(&mut self.line);
        let mut lent = None;
        if !line.is_empty() {
            let value = self.take(&line, &mut lent, sink)?;
            self.keep_all(&mut lent, value)?;
        }
        self.dispatch(None, sink)
    }

    /// The common case: at a message's start, `data: …` and the blank line after it are both there.
    #[inline]
    fn whole_message<'a>(&self, rest: &'a [u8], lent: Option<&[u8]>) -> Option<(&'a [u8], &'a [u8])> {
        if self.fresh || self.has_data || lent.is_some() || !self.line.is_empty() || !self.event.is_empty() {
            return None;
        }
        let value = rest.strip_prefix(b"data:")?;
        let end = memchr(b'\n', value)?;
        let (mut data, after) = (&value[..end], &value[end + 1..]);
        let ([b'\n', after @ ..] | [b'\r', b'\n', after @ ..]) = after else {
            return None;
        };
        if let Some(stripped) = data.strip_suffix(b"\r") {
            data = stripped;
        }
        // A CR inside would be the end of a line.
        if memchr(b'\r', data).is_some() {
            return None;
        }
        Some((data.strip_prefix(b" ").unwrap_or(data), after))
    }

    /// One line without its end; returns a data field's value, which the caller keeps.
    fn take<'l, E, F>(&mut self, line: &'l [u8], lent: &mut Option<&[u8]>, sink: &mut F) -> Result<Option<&'l [u8]>, E>
    where
        F: FnMut(Item<'_>) -> Result<(), E>,
    {
        let line =
            if std::mem::take(&mut self.fresh) { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line };
        if line.is_empty() {
            return self.dispatch(lent.take(), sink).map(|()| None);
        }
        let (name, value) = match memchr(b':', line) {
            Some(0) => return sink(Item::Comment).map(|()| None),
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &line[line.len()..]),
        };
        match name {
            b"data" => return Ok(Some(value)),
            b"event" => {
                self.event.clear();
                self.event.extend_from_slice(value);
            }
            b"error" => {
                self.event.clear();
                self.event.extend_from_slice(b"error");
                return Ok(Some(value));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Keep the lent line, then `value`.
    fn keep_all(&mut self, lent: &mut Option<&[u8]>, value: Option<&[u8]>) -> Result<(), TooLong> {
        let Some(value) = value else {
            return Ok(());
        };
        if let Some(first) = lent.take() {
            self.keep(first)?;
        }
        self.keep(value)
    }

    fn dispatch<E, F>(&mut self, lent: Option<&[u8]>, sink: &mut F) -> Result<(), E>
    where
        F: FnMut(Item<'_>) -> Result<(), E>,
    {
        let result = if let Some(data) = lent {
            sink(Item::Message { event: &self.event, data })
        } else if self.has_data {
            sink(Item::Message { event: &self.event, data: &self.data })
        } else {
            Ok(())
        };
        self.event.clear();
        self.data.clear();
        self.has_data = false;
        result
    }

    fn keep(&mut self, value: &[u8]) -> Result<(), TooLong> {
        if self.data.len() + usize::from(self.has_data) + value.len() > self.limit {
            return Err(TooLong { limit: self.limit });
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn grow_line(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + piece.len() > self.limit {
            return Err(TooLong { limit: self.limit });
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }
}

/// Append a message without name. `data` holds no line end.
pub fn write_data(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}

/// Append a message with a name. Neither holds a line end.
pub fn write_event(out: &mut Vec<u8>, event: &str, data: &[u8]) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(event.as_bytes());
    out.push(b'\n');
    write_data(out, data);
}

/// Append a comment, which readers skip.
pub fn write_comment(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b": ");
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, PartialEq, Eq)]
    enum Owned {
        Message(String, String),
        Comment,
    }

    fn read(pieces: &[&[u8]], limit: usize) -> Result<Vec<Owned>, TooLong> {
        let mut got = Vec::new();
        let mut reader = Reader::new(limit);
        let mut sink = |item: Item<'_>| -> Result<(), TooLong> {
            got.push(match item {
                Item::Message { event, data } => Owned::Message(
                    String::from_utf8_lossy(event).into_owned(),
                    String::from_utf8_lossy(data).into_owned(),
                ),
                Item::Comment => Owned::Comment,
            });
            Ok(())
        };
        for piece in pieces {
            reader.feed(piece, &mut sink)?;
        }
        reader.finish(&mut sink)?;
        Ok(got)
    }

    fn message(event: &str, data: &str) -> Owned {
        Owned::Message(event.into(), data.into())
    }

    #[test]
    fn every_shape_of_line_is_read() {
        let text = b"\xEF\xBB\xBFdata: a\n\ndata:b\r\n\r\ndata:  c\r\rdata: d\ndata: e\n\n: hi\n\nevent: x\ndata: {}\n\nid: 4\nretry: 9\ndata\n\nevent: lost\n\nerror: {\"a\":1}\n\ndata: tail";
        let expected = vec![
            message("", "a"),
            message("", "b"),
            message("", " c"),
            message("", "d\ne"),
            Owned::Comment,
            message("x", "{}"),
            message("", ""),
            message("error", "{\"a\":1}"),
            message("", "tail"),
        ];
        assert_eq!(read(&[text], 100).unwrap(), expected);
        for cut in 0..text.len() {
            assert_eq!(read(&[&text[..cut], &text[cut..]], 100).unwrap(), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(read(&single, 100).unwrap(), expected);
    }

    #[test]
    fn a_whole_message_is_lent_and_not_copied() {
        let text = b"data: first\n\ndata: second\n\n".as_slice();
        let mut reader = Reader::default();
        let range = text.as_ptr_range();
        let mut seen = 0;
        reader
            .feed(text, &mut |item: Item<'_>| -> Result<(), TooLong> {
                if let Item::Message { data, .. } = item {
                    assert!(range.contains(&data.as_ptr()));
                    seen += 1;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, 2);
    }

    #[test]
    fn an_endless_line_is_a_fault_at_the_limit() {
        assert_eq!(read(&[b"data: 0123456789\n\n"], 8), Err(TooLong { limit: 8 }));
        let pieces = vec![b"data: x".as_slice(); 100];
        assert_eq!(read(&pieces, 64), Err(TooLong { limit: 64 }));
        let lines = vec![b"data: x\n".as_slice(); 100];
        assert_eq!(read(&lines, 64), Err(TooLong { limit: 64 }));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = Vec::new();
        write_data(&mut out, b"{}");
        write_event(&mut out, "ping", b"[]");
        write_comment(&mut out, "alive");
        assert_eq!(read(&[&out], 100).unwrap(), vec![message("", "{}"), message("ping", "[]"), Owned::Comment]);
    }

    proptest! {
        #[test]
        fn cuts_never_change_what_is_read(
            text in proptest::collection::vec(prop_oneof![
                Just(b"data: ".to_vec()), Just(b"data:".to_vec()), Just(b"event: ".to_vec()), Just(b"\n".to_vec()), Just(b"\r\n".to_vec()),
                Just(b"\r".to_vec()), Just(b":".to_vec()), proptest::collection::vec(any::<u8>(), 0..6),
            ], 0..40),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
        ) {
            let text = text.concat();
            let whole = read(&[&text], 4096).unwrap();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&pieces, 4096).unwrap(), whole);
        }
    }
}
