use super::Error;

/// The most bytes that a size line's extension, or all trailers together, may have.
const MAX_LINE: usize = 4096;
const MAX_TRAILERS: usize = 16 * 1024;
/// A size of more digits than this would not fit in memory anyway.
const MAX_DIGITS: u8 = 15;

/// Where a reader stands in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size {
        digits: u8,
    },
    Extension {
        length: usize,
    },
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    /// `line` bytes into a trailer line.
    Trailer {
        line: usize,
    },
    TrailerEnd {
        line: usize,
    },
    Done,
}

/// A chunked body, told apart from its framing.
#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    left: u64,
    trailers: usize,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { state: State::Size { digits: 0 }, left: 0, trailers: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The next piece of data at the front of `input`, which is moved on past what was read. `None`: `input` is used up,
    /// or the body is complete.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
        loop {
            if self.state == State::Data && !input.is_empty() {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
                let (data, rest) = input.split_at(length);
                *input = rest;
                self.left -= length as u64;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                return Ok(Some(data));
            }
            if self.is_done() {
                return Ok(None);
            }
            let Some((&byte, rest)) = input.split_first() else {
                return Ok(None);
            };
            *input = rest;
            self.state = self.step(byte)?;
        }
    }

    fn step(&mut self, byte: u8) -> Result<State, Error> {
        Ok(match (self.state, byte) {
            (State::Size { digits }, _) if byte.is_ascii_hexdigit() => {
                if digits == MAX_DIGITS {
                    return Err(Error::BadChunk);
                }
                let value = (byte as char).to_digit(16).unwrap_or_default();
                self.left = self.left << 4 | u64::from(value);
                State::Size { digits: digits + 1 }
            }
            (State::Size { digits: 1.. } | State::Extension { .. }, b'\r') => State::SizeEnd,
            (State::Size { digits: 1.. }, b';' | b' ' | b'\t') => State::Extension { length: 0 },
            (State::Extension { length }, _) if byte != b'\n' && length < MAX_LINE => {
                State::Extension { length: length + 1 }
            }
            (State::SizeEnd, b'\n') if self.left == 0 => State::Trailer { line: 0 },
            (State::SizeEnd, b'\n') => State::Data,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size { digits: 0 },
            (State::Trailer { line }, b'\r') => State::TrailerEnd { line },
            (State::Trailer { line }, _) if byte != b'\n' && self.trailers < MAX_TRAILERS => {
                self.trailers += 1;
                State::Trailer { line: line + 1 }
            }
            (State::TrailerEnd { line: 0 }, b'\n') => State::Done,
            (State::TrailerEnd { .. }, b'\n') => State::Trailer { line: 0 },
            _ => return Err(Error::BadChunk),
        })
    }
}
