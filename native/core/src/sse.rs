//! Incremental reader of `text/event-stream` (WHATWG HTML, section 9.2): lines end in LF, CRLF or CR, comments are
//! skipped, several `data` lines of one event are joined by a line feed, a BOM at the start is ignored.
use memchr::{memchr, memchr2};

/// A line, or the data of one event, is larger than the reader's bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the engine's stream is larger than {0} bytes")]
pub struct TooLarge(pub usize);

/// Reads events. An event of one line that lies whole inside a fed slice is given without copying.
#[derive(Debug)]
pub struct Reader {
    bound: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    foreign: bool,
    after_cr: bool,
    started: bool,
}

impl Reader {
    /// No line and no event may be larger than `bound` bytes.
    pub const fn new(bound: usize) -> Self {
        Self {
            bound,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            foreign: false,
            after_cr: false,
            started: false,
        }
    }

    /// Give the data of each event that ends in `bytes` to `sink`, until it errs. Events with a name other than
    /// `message` or `error` are vendors' own and are skipped.
    pub fn feed<E: From<TooLarge>>(
        &mut self,
        mut bytes: &[u8],
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if self.after_cr {
                self.after_cr = false;
                if bytes[0] == b'\n' {
                    bytes = &bytes[1..];
                    continue;
                }
            }
            if let Some((data, rest)) = self.whole_event(bytes) {
                sink(data)?;
                bytes = rest;
                continue;
            }
            let Some(at) = memchr2(b'\n', b'\r', bytes) else {
                self.within_bound(self.line.len() + bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.after_cr = bytes[at] == b'\r';
            if self.line.is_empty() {
                self.take_line(&bytes[..at], &mut sink)?;
            } else {
                self.within_bound(self.line.len() + at)?;
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..at]);
                let taken = self.take_line(&line, &mut sink);
                line.clear();
                self.line = line;
                taken?;
            }
            bytes = &bytes[at + 1..];
        }
        Ok(())
    }

    /// The stream ended: an event whose blank line is missing is given all the same.
    pub fn end<E: From<TooLarge>>(&mut self, mut sink: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut sink)?;
        }
        self.take_line(b"", &mut sink)
    }

    /// `data: …` with its blank line, whole, at the start of `bytes`, when nothing is pending.
    fn whole_event<'a>(&mut self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        if self.has_data || self.foreign || !self.line.is_empty() {
            return None;
        }
        let rest = bytes.strip_prefix(b"data: ")?;
        let at = memchr(b'\n', rest)?;
        if rest.get(at + 1) != Some(&b'\n') || at > self.bound || memchr(b'\r', &rest[..at]).is_some() {
            return None;
        }
        self.started = true;
        Some((&rest[..at], &rest[at + 2..]))
    }

    fn take_line<E: From<TooLarge>>(
        &mut self,
        line: &[u8],
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = if self.started { line } else { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) };
        self.started = true;
        if line.is_empty() {
            return self.dispatch(sink);
        }
        let colon = memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                self.within_bound(self.data.len() + value.len() + 1)?;
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.foreign = !matches!(value, b"" | b"message" | b"error"),
            // Old llama.cpp builds wrote their errors as a field of its own.
            b"error" => {
                self.data.clear();
                self.data.extend_from_slice(b"{\"error\":");
                self.data.extend_from_slice(value);
                self.data.push(b'}');
                self.has_data = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn dispatch<E: From<TooLarge>>(&mut self, sink: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let given = std::mem::take(&mut self.has_data) && !std::mem::take(&mut self.foreign);
        self.foreign = false;
        let result = if given { sink(&self.data) } else { Ok(()) };
        self.data.clear();
        result
    }

    fn within_bound(&self, size: usize) -> Result<(), TooLarge> {
        if size > self.bound { Err(TooLarge(self.bound)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut reader = Reader::new(1000);
        let mut found = vec![];
        for piece in pieces {
            let fed: Result<(), TooLarge> = reader.feed(piece, |data| {
                found.push(String::from_utf8_lossy(data).into_owned());
                Ok(())
            });
            assert_eq!(fed, Ok(()));
        }
        found
    }

    #[test]
    fn every_way_to_end_a_line() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = format!(": hello{end}{end}data: a{end}{end}data:b{end}data: c{end}{end}data{end}{end}");
            assert_eq!(events(&[stream.as_bytes()]), ["a", "b\nc", ""], "{end:?}");
        }
    }

    #[test]
    fn vendors_events_are_skipped_and_errors_are_not() {
        let stream =
            b"event: file_produced\ndata: x\n\nevent: error\ndata: y\n\nevent: message\ndata: z\n\nerror: {}\n\n";
        assert_eq!(events(&[stream]), ["y", "z", "{\"error\":{}}"]);
    }

    #[test]
    fn a_bom_is_ignored_and_the_last_event_needs_no_blank_line() {
        assert_eq!(events(&[b"\xef\xbb\xbfdata: a\n\n"]), ["a"]);
        let mut reader = Reader::new(100);
        let mut found = vec![];
        let mut sink = |data: &[u8]| -> Result<(), TooLarge> {
            found.push(data.to_vec());
            Ok(())
        };
        assert_eq!(reader.feed(b"data: a\n", &mut sink), Ok(()));
        assert_eq!(reader.end(&mut sink), Ok(()));
        assert_eq!(found, [b"a"]);
    }

    #[test]
    fn lines_and_events_are_bounded() {
        let mut reader = Reader::new(8);
        assert_eq!(reader.feed(b"data: 1234567", |_| Ok(())), Err(TooLarge(8)));
        let mut reader = Reader::new(8);
        assert_eq!(reader.feed(b"data: 12\ndata: 34\ndata: 567\n", |_| Ok(())), Err(TooLarge(8)));
    }

    proptest! {
        /// However the bytes are cut, the events are the same.
        #[test]
        fn cuts_do_not_matter(
            parts in proptest::collection::vec("(data: ?[a-zé:]{0,6}|event: [a-e]{0,3}|: c|)(\n|\r\n|\r)", 0..12),
            cuts in proptest::collection::vec(0usize..200, 0..20),
        ) {
            let stream = parts.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= stream.len()).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(events(&pieces), events(&[&stream]));
        }
    }
}
