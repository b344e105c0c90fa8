//! A cursor over the bytes at hand, which may be only the front of the file.
use super::error::Error;

/// The byte order of every number in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As nearly every file is.
    Little,
    /// Version 3 written on, or for, a big-endian machine.
    Big,
}

impl Order {
    /// `little` or `big`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Little => "little",
            Self::Big => "big",
        }
    }

    pub(super) fn u32(self, raw: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(raw),
            Self::Big => u32::from_be_bytes(raw),
        }
    }

    pub(super) fn u64(self, raw: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(raw),
            Self::Big => u64::from_be_bytes(raw),
        }
    }
}

/// A piece of the file. It was checked to lie inside the bytes when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub at: usize,
    pub len: usize,
}

impl Span {
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.at..self.at + self.len).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    pub bytes: &'a [u8],
    /// The length of the file, at least `bytes.len()`.
    pub size: u64,
    pub pos: usize,
    pub order: Order,
}

impl<'a> Reader<'a> {
    pub fn at(&self) -> u64 {
        self.pos as u64
    }

    /// Bytes of the file that follow the cursor, read or not.
    pub fn rest(&self) -> u64 {
        self.size.saturating_sub(self.at())
    }

    /// The error for a thing at `at` that needs the file up to `end`.
    #[cold]
    pub fn short(&self, at: u64, end: u64, what: &'static str) -> Error {
        if end > self.size { Error::Truncated { at, end, size: self.size, what } } else { Error::More { at, end } }
    }

    /// Step over `len` bytes.
    pub fn span(&mut self, len: u64, what: &'static str) -> Result<Span, Error> {
        let left = self.bytes.len() - self.pos;
        match usize::try_from(len) {
            Ok(len) if len <= left => {
                let span = Span { at: self.pos, len };
                self.pos += len;
                Ok(span)
            }
            _ => Err(self.short(self.at(), self.at().saturating_add(len), what)),
        }
    }

    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        match self.bytes[self.pos..].first_chunk::<N>() {
            Some(raw) => {
                self.pos += N;
                Ok(*raw)
            }
            None => Err(self.short(self.at(), self.at() + N as u64, what)),
        }
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, Error> {
        self.array(what).map(|raw| self.order.u32(raw))
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, Error> {
        self.array(what).map(|raw| self.order.u64(raw))
    }

    /// A string: its length as u64, then its bytes.
    pub fn string(&mut self, what: &'static str, bound: u64) -> Result<Span, Error> {
        let at = self.at();
        let length = self.u64(what)?;
        if length > bound {
            return Err(Error::Length { at, length, bound, what });
        }
        self.span(length, what)
    }

    /// A string that must be UTF-8, as keys and tensor names must.
    pub fn name(&mut self, what: &'static str, bound: u64) -> Result<(Span, &'a str), Error> {
        let span = self.string(what, bound)?;
        match std::str::from_utf8(span.of(self.bytes)) {
            Ok(text) => Ok((span, text)),
            Err(_) => Err(Error::Text { at: span.at as u64, what }),
        }
    }

    /// A count of things of which each takes at least `least` bytes.
    pub fn count(&mut self, what: &'static str, least: u64) -> Result<u64, Error> {
        let at = self.at();
        let count = self.u64(what)?;
        check_count(at, count, what, least, self.rest())?;
        Ok(count)
    }

    /// Step over `count` strings: the hot loop, a vocabulary is 150,000 of them.
    pub fn skip_strings(&mut self, count: u64) -> Result<(), Error> {
        match self.order {
            Order::Little => self.skip_strings_as(count, u64::from_le_bytes),
            Order::Big => self.skip_strings_as(count, u64::from_be_bytes),
        }
    }

    #[inline]
    fn skip_strings_as(&mut self, count: u64, read: impl Fn([u8; 8]) -> u64) -> Result<(), Error> {
        let mut rest = &self.bytes[self.pos..];
        for done in 0..count {
            let step = rest.split_first_chunk::<8>().and_then(|(raw, tail)| {
                let length = usize::try_from(read(*raw)).ok()?;
                tail.get(length..)
            });
            let Some(tail) = step else {
                return Err(self.short_string(rest, count - done, read));
            };
            rest = tail;
        }
        self.pos = self.bytes.len() - rest.len();
        Ok(())
    }

    #[cold]
    fn short_string(&self, rest: &[u8], left: u64, read: impl Fn([u8; 8]) -> u64) -> Error {
        let at = (self.bytes.len() - rest.len()) as u64;
        let Some(raw) = rest.first_chunk::<8>() else {
            return self.short(at, at.saturating_add(left.saturating_mul(8)), "a string of an array");
        };
        let own = at.saturating_add(8).saturating_add(read(*raw));
        if own > self.size {
            return self.short(at, own, "a string of an array");
        }
        // The strings that follow take eight bytes each at least: asking for them now saves rounds.
        self.short(at, own.saturating_add((left - 1).saturating_mul(8)), "a string of an array")
    }
}

pub(super) fn check_count(at: u64, count: u64, what: &'static str, least: u64, rest: u64) -> Result<(), Error> {
    if count.checked_mul(least).is_none_or(|bytes| bytes > rest) {
        return Err(Error::Count { at, count, what, rest });
    }
    Ok(())
}
