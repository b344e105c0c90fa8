//! A plain request to an engine, its answer kept whole.
use crate::{
    chat::{Fault, FaultKind},
    exchange::Phase,
    http1::{self, BadToken, Part},
};

/// The state machine. A status other than 200 is an answer like any other; the phase is never [`Phase::Body`].
#[derive(Debug)]
pub struct Call {
    http: http1::Reader,
    limit: usize,
    phase: Phase,
    fault: Option<Fault>,
    status: u16,
    content_type: String,
    body: Vec<u8>,
    surplus: bool,
}

impl Call {
    /// The HTTP request, and the machine that keeps up to `limit` bytes of its answer's body.
    pub fn new(request: &http1::Request<'_>, limit: usize) -> Result<(Vec<u8>, Self), BadToken> {
        let call = Self {
            http: http1::Reader::new(request.method),
            limit,
            phase: Phase::Head,
            fault: None,
            status: 0,
            content_type: String::new(),
            body: Vec::new(),
            surplus: false,
        };
        Ok((request.to_bytes()?, call))
    }

    /// Read what the engine's socket gave.
    pub fn feed(&mut self, mut input: &[u8]) {
        if self.is_over() {
            return;
        }
        loop {
            match self.http.next(&mut input) {
                Ok(Some(Part::Head(head))) => (self.status, self.content_type) = (head.status, head.content_type),
                Ok(Some(Part::Body(data))) => {
                    if self.body.len() + data.len() > self.limit {
                        let sentence = format!("The engine's answer is larger than {} bytes.", self.limit);
                        return self.fail(Fault::new(FaultKind::BadGateway, sentence));
                    }
                    self.body.extend_from_slice(data);
                }
                Ok(Some(Part::End)) => self.phase = Phase::Done,
                Ok(None) => {
                    self.surplus |= !input.is_empty();
                    return;
                }
                Err(error) => return self.fail(malformed(error)),
            }
        }
    }

    /// The engine closed its side.
    pub fn eof(&mut self) {
        if self.is_over() {
            return;
        }
        match self.http.eof() {
            Ok(_) => self.phase = Phase::Done,
            Err(error) => self.fail(malformed(error)),
        }
    }

    /// End it with a failure.
    pub fn fail(&mut self, fault: Fault) {
        if !self.is_over() {
            self.fault = Some(fault);
            self.phase = Phase::Failed;
        }
    }

    /// [`Phase::Head`] until it is over.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The failure, after [`Phase::Failed`].
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// The connection can carry another request.
    pub fn is_reusable(&self) -> bool {
        self.phase == Phase::Done && !self.surplus && self.http.is_reusable()
    }

    /// The engine's closing its side now would be the answer's proper end.
    pub fn ends_at_close(&self) -> bool {
        self.http.ends_at_close()
    }

    /// 0 until the head came.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Value of `content-type`.
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// What came of the body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Failed)
    }
}

fn malformed(error: http1::Error) -> Fault {
    let kind = if error == http1::Error::Cut { FaultKind::Cut } else { FaultKind::BadGateway };
    Fault::new(kind, format!("The engine's answer cannot be read: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(limit: usize) -> Call {
        let request =
            http1::Request { method: "GET", path: "/health", host: "h", secret: "", body: None, accept: "*/*" };
        Call::new(&request, limit).unwrap().1
    }

    #[test]
    fn an_answer_is_kept_whole_whatever_its_status() {
        let mut call = call(100);
        for piece in b"HTTP/1.1 503 x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".chunks(7) {
            call.feed(piece);
        }
        assert_eq!((call.phase(), call.status(), call.body()), (Phase::Done, 503, b"{}".as_slice()));
        assert_eq!(call.content_type(), "application/json");
        assert!(call.is_reusable());
    }

    #[test]
    fn too_large_an_answer_and_a_cut_one_are_faults() {
        let mut large = call(3);
        large.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd");
        assert_eq!(large.fault().unwrap().kind, FaultKind::BadGateway);
        assert!(!large.is_reusable());
        let mut cut = call(3);
        cut.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab");
        cut.eof();
        assert_eq!(cut.fault().unwrap().kind, FaultKind::Cut);
    }
}
