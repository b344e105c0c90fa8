use super::{
    Error,
    chunked::Chunked,
    head::{Framing, Head, MAX_HEAD, end_of_head},
};

/// What a response consists of.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The head, once.
    Head(Head),
    /// A piece of the body, never empty.
    Body(&'a [u8]),
    /// The response is complete.
    End,
}

#[derive(Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(Chunked),
    Close,
    Done,
}

/// Reads one response that comes in pieces cut anywhere.
#[derive(Debug)]
pub struct Reader {
    state: State,
    /// The beginning of a head whose end has not come.
    head: Vec<u8>,
    bodiless: bool,
    keep_alive: bool,
}

impl Reader {
    /// A reader of the answer to a request with this method.
    pub fn new(method: &str) -> Self {
        Self { state: State::Head, head: Vec::new(), bodiless: method == "HEAD", keep_alive: false }
    }

    /// The next part at the front of `input`, which is moved on past what was read. `None`: more input is needed, or
    /// the response is complete and what is left in `input` does not belong to it.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Part<'a>>, Error> {
        match &mut self.state {
            State::Head => self.next_head(input),
            State::Length(left) => {
                if *left == 0 {
                    self.state = State::Done;
                    return Ok(Some(Part::End));
                }
                if input.is_empty() {
                    return Ok(None);
                }
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= length as u64;
                Ok(Some(Part::Body(take(input, length))))
            }
            State::Chunked(chunked) => {
                if let Some(data) = chunked.next(input)? {
                    return Ok(Some(Part::Body(data)));
                }
                if chunked.is_done() {
                    self.state = State::Done;
                    return Ok(Some(Part::End));
                }
                Ok(None)
            }
            State::Close => Ok((!input.is_empty()).then(|| {
                let length = input.len();
                Part::Body(take(input, length))
            })),
            State::Done => Ok(None),
        }
    }

    /// The other side closed its side: [`Part::End`] for a body that ends so, `None` where the end was given before.
    pub fn eof(&mut self) -> Result<Option<Part<'static>>, Error> {
        match self.state {
            State::Done => Ok(None),
            State::Close => {
                self.state = State::Done;
                Ok(Some(Part::End))
            }
            _ => Err(Error::Cut),
        }
    }

    /// The body has no length of its own: the connection's end is its proper end.
    pub fn ends_at_close(&self) -> bool {
        matches!(self.state, State::Close)
    }

    /// The response is complete.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// The response is complete and its connection may carry another request (if nothing came after its end).
    pub fn is_reusable(&self) -> bool {
        self.is_done() && self.keep_alive
    }

    fn next_head<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Part<'a>>, Error> {
        loop {
            let head = if self.head.is_empty() {
                let Some(end) = end_of_head(input, 0) else {
                    self.keep_head(input)?;
                    return Ok(None);
                };
                Head::parse(checked(take(input, end))?, self.bodiless)?
            } else {
                let before = self.head.len();
                // Not more than a head's worth, so that a long body in the same slice is not copied.
                let piece = &input[..input.len().min(MAX_HEAD)];
                self.head.extend_from_slice(piece);
                let Some(end) = end_of_head(&self.head, before) else {
                    self.head.truncate(before);
                    self.keep_head(input)?;
                    return Ok(None);
                };
                take(input, end - before);
                let head = Head::parse(checked(&self.head[..end])?, self.bodiless)?;
                self.head = Vec::new();
                head
            };
            match head.status {
                // A change of protocol was not asked for.
                0..=99 | 101 => return Err(Error::BadHead),
                100..=199 => continue,
                _ => {}
            }
            self.keep_alive = head.keep_alive;
            self.state = match head.framing {
                Framing::Length(length) => State::Length(length),
                Framing::Chunked => State::Chunked(Chunked::new()),
                Framing::Close => State::Close,
            };
            return Ok(Some(Part::Head(head)));
        }
    }

    fn keep_head(&mut self, input: &mut &[u8]) -> Result<(), Error> {
        if self.head.len() + input.len() > MAX_HEAD {
            return Err(Error::HeadTooLong);
        }
        self.head.extend_from_slice(take(input, input.len()));
        Ok(())
    }
}

fn checked(head: &[u8]) -> Result<&[u8], Error> {
    if head.len() > MAX_HEAD { Err(Error::HeadTooLong) } else { Ok(head) }
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (front, rest) = input.split_at(length);
    *input = rest;
    front
}

#[cfg(test)]
mod tests;
