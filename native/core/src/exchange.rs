//! One request's way to an engine and back: HTTP/1.1, the event stream, the engine's decoder and the client's encoder in
//! one pass, without I/O.
use crate::chat::{Event, Fault, FaultKind, Finish, Usage};
use crate::dialect::Encode;
use crate::engine::Decode;
use crate::http1::{self, Step};
use crate::sse::{self, TooLarge};

/// Largest event of an engine's stream.
const EVENT_BOUND: usize = 16 * 1024 * 1024;
/// Largest answer that is no stream: a refusal, or a whole answer from an engine that does not stream.
const WHOLE_BOUND: usize = 16 * 1024 * 1024;

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing for the client yet.
    Head,
    /// Bytes for the client flow.
    Body,
    /// The answer is complete.
    Done,
    /// It failed: see [`Exchange::fault`].
    Failed,
}

/// What the engine's head announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unknown,
    Stream,
    Whole,
    Refusal(u16),
}

impl From<TooLarge> for Fault {
    fn from(error: TooLarge) -> Self {
        Self::new(FaultKind::BadGateway, error.to_string())
    }
}

impl From<http1::Broken> for Fault {
    fn from(error: http1::Broken) -> Self {
        Self::new(FaultKind::BadGateway, error.to_string())
    }
}

/// See the module's text. All times are monotonic nanoseconds.
pub struct Exchange {
    http: http1::Reader,
    events: sse::Reader,
    decoder: Box<dyn Decode>,
    encoder: Box<dyn Encode>,
    mode: Mode,
    whole: Vec<u8>,
    facts: Facts,
    phase: Phase,
    fault: Option<Fault>,
    clean: bool,
    started: bool,
}

/// What Python wants to know of an answer besides its bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Facts {
    usage: Option<Usage>,
    finish: Option<Finish>,
    first_ns: Option<u64>,
}

impl Facts {
    fn note(&mut self, event: &Event<'_>, now_ns: u64) {
        match event {
            Event::Text { .. } | Event::Reasoning { .. } | Event::CallStart { .. } => {
                self.first_ns.get_or_insert(now_ns);
            }
            Event::Finish { choice: 0, reason, .. } => self.finish = Some(*reason),
            Event::Usage { usage, .. } => self.usage = Some(*usage),
            _ => {}
        }
    }
}

impl Exchange {
    /// An answer that `decoder` reads and `encoder` writes.
    pub fn new(decoder: Box<dyn Decode>, encoder: Box<dyn Encode>) -> Self {
        Self {
            http: http1::Reader::new(false),
            events: sse::Reader::new(EVENT_BOUND),
            decoder,
            encoder,
            mode: Mode::Unknown,
            whole: Vec::new(),
            facts: Facts::default(),
            phase: Phase::Head,
            fault: None,
            clean: false,
            started: false,
        }
    }

    /// `content-type` of the client's answer.
    pub fn content_type(&self) -> &'static str {
        self.encoder.content_type()
    }

    /// How far it has come.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The client has been given bytes.
    pub const fn started(&self) -> bool {
        self.started
    }

    /// Why it failed.
    pub const fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Token counts, once the engine said them.
    pub const fn usage(&self) -> Option<Usage> {
        self.facts.usage
    }

    /// Why the first choice ended.
    pub const fn finish(&self) -> Option<Finish> {
        self.facts.finish
    }

    /// When the first text, reasoning or call came.
    pub const fn first_ns(&self) -> Option<u64> {
        self.facts.first_ns
    }

    /// The engine's connection can carry another request: the answer was read to its very end and nothing follows it.
    pub fn reusable(&self) -> bool {
        self.clean && self.http.head().is_some_and(|head| head.keep_alive)
    }

    /// The engine's closing its side now would be the answer's proper end.
    pub fn ends_at_close(&self) -> bool {
        self.http.ends_at_close()
    }

    /// Take what the engine sent; append the client's bytes to `out`.
    pub fn feed(&mut self, mut input: &[u8], now_ns: u64, out: &mut Vec<u8>) {
        if self.phase >= Phase::Done {
            return;
        }
        let before = out.len();
        let result = self.read(&mut input, now_ns, out);
        self.gave(out.len() > before);
        match result {
            Ok(()) => {
                // The end of the stream is known before the end of its framing; the connection is clean after both.
                if self.http.done() {
                    self.clean = input.is_empty();
                    self.complete(now_ns, out);
                }
            }
            Err(fault) => self.fail(fault, now_ns, out),
        }
    }

    /// The engine closed its side.
    pub fn eof(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        if self.phase >= Phase::Done {
            return;
        }
        if self.http.ends_at_close() {
            self.complete(now_ns, out);
        } else {
            let what = if self.http.head().is_none() { "before it answered" } else { "in the middle of its answer" };
            let fault = Fault::new(FaultKind::Cut, format!("the engine closed the connection {what}"));
            self.fail(fault, now_ns, out);
        }
    }

    /// End with a failure. Bytes follow only where the client has been given some: the dialect's error event.
    pub fn fail(&mut self, fault: Fault, now_ns: u64, out: &mut Vec<u8>) {
        if self.phase >= Phase::Done {
            return;
        }
        self.phase = Phase::Failed;
        self.clean = false;
        if self.started {
            self.encoder.fault(&fault, now_ns, out);
        }
        self.fault = Some(fault);
    }

    /// Something that keeps an idle stream open, where the dialect allows it.
    pub fn keep_alive(&mut self, out: &mut Vec<u8>) {
        if self.phase < Phase::Done {
            let before = out.len();
            self.encoder.keep_alive(out);
            self.started |= out.len() > before;
        }
    }

    fn read(&mut self, input: &mut &[u8], now_ns: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        loop {
            match self.http.step(input)? {
                Step::More | Step::End => return Ok(()),
                Step::Head => self.mode = self.announced(),
                Step::Body(piece) => self.body(piece, now_ns, out)?,
            }
        }
    }

    fn announced(&self) -> Mode {
        match self.http.head() {
            None => Mode::Unknown,
            Some(head) if head.status != 200 => Mode::Refusal(head.status),
            Some(head) if head.content_type == "text/event-stream" => Mode::Stream,
            Some(_) => Mode::Whole,
        }
    }

    fn body(&mut self, piece: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        if self.mode != Mode::Stream {
            if self.whole.len() + piece.len() > WHOLE_BOUND {
                return Err(Fault::new(FaultKind::BadGateway, "the engine's answer is too large"));
            }
            self.whole.extend_from_slice(piece);
            return Ok(());
        }
        let Self { events, decoder, encoder, facts, .. } = self;
        events.feed(piece, |data| {
            decoder.data(data, &mut |event| {
                facts.note(event, now_ns);
                encoder.event(event, now_ns, out);
            })
        })
    }

    /// The engine's answer is whole.
    fn complete(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        let before = out.len();
        let result = self.close(now_ns, out);
        self.gave(out.len() > before);
        match result {
            Ok(()) => self.phase = Phase::Done,
            Err(fault) => {
                let clean = self.clean;
                self.fail(fault, now_ns, out);
                self.clean = clean;
            }
        }
    }

    fn close(&mut self, now_ns: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Self { events, decoder, encoder, facts, mode, whole, .. } = self;
        let mut sink = |event: &Event<'_>| {
            facts.note(event, now_ns);
            encoder.event(event, now_ns, out);
        };
        match mode {
            Mode::Refusal(status) => return Err(decoder.refusal(*status, whole)),
            Mode::Whole => decoder.data(whole, &mut sink)?,
            Mode::Stream => events.end(|data| decoder.data(data, &mut sink))?,
            Mode::Unknown => {}
        }
        decoder.end(&mut sink)
    }

    fn gave(&mut self, something: bool) {
        if something {
            self.started = true;
            self.phase = self.phase.max(Phase::Body);
        }
    }
}
