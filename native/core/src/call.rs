//! A plain request to an engine whose answer is kept whole.
use crate::chat::{Fault, FaultKind};
use crate::exchange::Phase;
use crate::http1::{Head, Reader, Step};

/// An answer that is read to its end, up to a bound.
#[derive(Debug)]
pub struct Call {
    http: Reader,
    limit: usize,
    body: Vec<u8>,
    phase: Phase,
    clean: bool,
    fault: Option<Fault>,
}

impl Call {
    /// The body may have `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { http: Reader::new(false), limit, body: Vec::new(), phase: Phase::Head, clean: false, fault: None }
    }

    /// How far it has come; [`Phase::Body`] is never seen.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Why it failed.
    pub const fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Status and content type.
    pub const fn head(&self) -> Option<&Head> {
        self.http.head()
    }

    /// The body so far.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The connection can carry another request.
    pub fn reusable(&self) -> bool {
        self.clean && self.http.head().is_some_and(|head| head.keep_alive)
    }

    /// The engine's closing its side now would be the answer's proper end.
    pub fn ends_at_close(&self) -> bool {
        self.http.ends_at_close()
    }

    /// Take what the engine sent.
    pub fn feed(&mut self, mut input: &[u8]) {
        while self.phase < Phase::Done {
            match self.http.step(&mut input) {
                Ok(Step::More) => return,
                Ok(Step::Head) => {}
                Ok(Step::Body(piece)) if self.body.len() + piece.len() > self.limit => {
                    self.fail(Fault::new(FaultKind::BadGateway, "the engine's answer is too large"));
                }
                Ok(Step::Body(piece)) => self.body.extend_from_slice(piece),
                Ok(Step::End) => {
                    self.phase = Phase::Done;
                    self.clean = input.is_empty();
                }
                Err(broken) => self.fail(broken.into()),
            }
        }
    }

    /// The engine closed its side.
    pub fn eof(&mut self) {
        if self.phase >= Phase::Done {
        } else if self.http.ends_at_close() {
            self.phase = Phase::Done;
        } else {
            self.fail(Fault::new(FaultKind::Cut, "the engine closed the connection"));
        }
    }

    /// End with a failure.
    pub fn fail(&mut self, fault: Fault) {
        if self.phase < Phase::Done {
            self.phase = Phase::Failed;
            self.fault = Some(fault);
        }
    }
}
