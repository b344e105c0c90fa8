//! One request's way to an engine and back: HTTP/1.1, event stream, the engine's decoder and the client's encoder in one
//! pass over what the engine's socket gave.
use crate::{
    chat::{Event, Fault, FaultKind, Finish, Format, Request, Usage},
    dialect::Encode,
    engine::{Decode, Family},
    http1::{self, Part},
    sse::{self, Item},
};

/// The most bytes of an error's body, and of an answer that was not streamed though a stream was asked for.
const MAX_REFUSAL: usize = 64 * 1024;
const MAX_WHOLE: usize = 64 * 1024 * 1024;

/// How far an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing for the client yet.
    Head,
    /// Bytes for the client flow.
    Body,
    /// The answer is complete.
    Done,
    /// There is a fault; if bytes flowed, the dialect's error event is the last of them.
    Failed,
}

/// What is done with the engine's body.
#[derive(Debug)]
enum Mode {
    /// No head yet.
    Undecided,
    /// Events.
    Stream,
    /// One JSON document, kept until it is whole.
    Whole(Vec<u8>),
    /// An error's body, kept until it is whole.
    Refusal(u16, Vec<u8>),
}

/// The state machine. `out` gets the client's bytes; after [`Phase::Done`] or [`Phase::Failed`] input is ignored.
pub struct Exchange {
    http: http1::Reader,
    mode: Mode,
    stream: sse::Reader,
    decoder: Box<dyn Decode>,
    client: Client,
    phase: Phase,
    fault: Option<Fault>,
    /// The connection is spent: what came after the answer is unread or does not belong to it.
    spent: bool,
    closes_after_stream: bool,
}

/// The client's side: the encoder, and the facts that pass by on the way to it.
struct Client {
    encoder: Box<dyn Encode>,
    wrote: bool,
    /// The visible texts, where the answer is whole and must have a shape.
    texts: Vec<String>,
    /// The calls, where the answer is whole and their arguments must have a shape.
    calls: Option<Vec<Called>>,
    usage: Option<Usage>,
    pieces: u64,
    finish: Option<Finish>,
    first_ns: Option<u64>,
}

impl Exchange {
    /// The engine's HTTP request and the machine that reads its answer.
    pub fn new(
        request: &Request,
        family: Family,
        alias: &str,
        host: &str,
        secret: &str,
        encoder: Box<dyn Encode>,
    ) -> Result<(Vec<u8>, Self), Fault> {
        let outbound = family.encode(request, alias)?;
        let bytes = http1::Request {
            method: "POST",
            path: outbound.path,
            host,
            secret,
            body: None,
            accept: "text/event-stream",
        }
        .around(outbound.body)
        .map_err(|error| Fault::new(FaultKind::Internal, error.to_string()))?;
        let exchange = Self {
            http: http1::Reader::new("POST"),
            mode: Mode::Undecided,
            stream: sse::Reader::default(),
            decoder: family.decoder(request),
            client: Client {
                encoder,
                wrote: false,
                texts: shaped(request),
                calls: (!request.stream && request.shapes_calls()).then(Vec::new),
                usage: None,
                pieces: 0,
                finish: None,
                first_ns: None,
            },
            phase: Phase::Head,
            fault: None,
            spent: false,
            closes_after_stream: family.closes_after_stream(),
        };
        Ok((bytes, exchange))
    }

    /// Read what the engine's socket gave.
    pub fn feed(&mut self, input: &[u8], now_ns: u64, out: &mut Vec<u8>) {
        if self.is_over() {
            return;
        }
        let before = out.len();
        let result = self.read(input, now_ns, out);
        self.settle(before, result, now_ns, out);
    }

    /// The engine closed its side.
    pub fn eof(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        if self.is_over() {
            return;
        }
        let before = out.len();
        let result = match self.http.eof() {
            Ok(Some(Part::End)) => self.end_of_body(now_ns, out),
            Ok(_) => Ok(()),
            // The answer is what counts, not the last chunk's mark after it.
            Err(_) if self.decoder.done() => {
                self.spent = true;
                self.phase = Phase::Done;
                Ok(())
            }
            Err(error) => self.cut(error, now_ns, out),
        };
        self.settle(before, result, now_ns, out);
    }

    /// End it with a failure that only the caller knows.
    pub fn fail(&mut self, fault: Fault, now_ns: u64, out: &mut Vec<u8>) {
        if self.is_over() {
            return;
        }
        self.spent = true;
        if self.decoder.done() {
            // Only the engine's framing was still open.
            self.phase = Phase::Done;
            return;
        }
        let before = out.len();
        self.settle(before, Err(fault), now_ns, out);
    }

    /// Bytes that keep the client's idle stream open; none where the dialect has none.
    pub fn keep_alive(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        if self.is_over() || self.decoder.done() {
            return;
        }
        let before = out.len();
        self.client.encoder.keep_alive(now_ns, out);
        self.settle(before, Ok(()), now_ns, out);
    }

    /// `content-type` of the client's answer.
    pub fn content_type(&self) -> &'static str {
        self.client.encoder.content_type()
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The failure, after [`Phase::Failed`].
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// The engine's connection can carry another request.
    pub fn is_reusable(&self) -> bool {
        self.is_over() && !self.spent && self.http.is_reusable()
    }

    /// The client has been given bytes, so that a failure is an event in its stream.
    pub fn started(&self) -> bool {
        self.client.wrote
    }

    /// The engine's closing its side now would be no failure.
    pub fn ends_at_close(&self) -> bool {
        self.decoder.done() || self.http.ends_at_close()
    }

    /// Token counts, once known.
    pub fn usage(&self) -> Option<Usage> {
        self.client.usage
    }

    /// Pieces of the answer that came; engines send about one for each token.
    pub fn pieces(&self) -> u64 {
        self.client.pieces
    }

    /// Why the first choice ended, once known.
    pub fn finish(&self) -> Option<Finish> {
        self.client.finish
    }

    /// The finished answer as an object to keep, where the client asked for that; else nothing.
    pub fn document(&self) -> &[u8] {
        self.client.encoder.document()
    }

    /// The visible text of each choice, where the answer is whole and must have a shape; else none.
    pub fn texts(&self) -> &[String] {
        &self.client.texts
    }

    /// The calls, where the answer is whole and their arguments must have a shape; else none.
    pub fn calls(&self) -> &[Called] {
        self.client.calls.as_deref().unwrap_or_default()
    }

    /// When the first text, reasoning or call came.
    pub fn first_ns(&self) -> Option<u64> {
        self.client.first_ns
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Failed)
    }

    fn read(&mut self, mut input: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        while let Some(part) = self.http.next(&mut input).map_err(malformed)? {
            match part {
                Part::Head(head) => self.mode = mode(&head)?,
                Part::Body(data) => self.body(data, now_ns, out)?,
                Part::End => {
                    self.spent |= !input.is_empty();
                    return self.end_of_body(now_ns, out);
                }
            }
        }
        // The framing's end came along, or this engine is about to hang up: either way the client need not wait.
        if self.closes_after_stream && self.decoder.done() {
            self.spent = true;
            self.phase = Phase::Done;
        }
        Ok(())
    }

    fn body(&mut self, data: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        let (kept, limit) = match &mut self.mode {
            Mode::Stream => {
                let (decoder, client) = (&mut *self.decoder, &mut self.client);
                let mut sink = |item: Item<'_>| message(item, decoder, client, now_ns, out);
                return self.stream.feed(data, &mut sink).map_err(|Stop(fault)| fault);
            }
            Mode::Undecided => return Ok(()),
            Mode::Whole(kept) => (kept, MAX_WHOLE),
            // What is beyond the bound says nothing more.
            Mode::Refusal(_, kept) => {
                let room = MAX_REFUSAL.saturating_sub(kept.len());
                kept.extend_from_slice(&data[..data.len().min(room)]);
                return Ok(());
            }
        };
        if kept.len() + data.len() > limit {
            return Err(Fault::new(FaultKind::BadGateway, "The engine's answer is too large."));
        }
        kept.extend_from_slice(data);
        Ok(())
    }

    fn end_of_body(&mut self, now_ns: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        let (decoder, client) = (&mut *self.decoder, &mut self.client);
        match &self.mode {
            Mode::Undecided => {}
            Mode::Stream => {
                let mut sink = |item: Item<'_>| message(item, decoder, client, now_ns, out);
                self.stream.finish(&mut sink).map_err(|Stop(fault)| fault)?;
            }
            Mode::Whole(body) => decoder.data(body, &mut |event| client.event(event, now_ns, out))?,
            Mode::Refusal(status, body) => return Err(decoder.refusal(*status, body)),
        }
        let client = &mut self.client;
        self.decoder.end(&mut |event| client.event(event, now_ns, out))?;
        self.phase = Phase::Done;
        Ok(())
    }

    /// The connection ended early: what is there may yet be an answer without its last mark.
    fn cut(&mut self, error: http1::Error, now_ns: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.spent = true;
        match self.mode {
            Mode::Stream | Mode::Refusal(..) => self.end_of_body(now_ns, out),
            Mode::Undecided | Mode::Whole(_) => Err(malformed(error)),
        }
    }

    /// Take over what a step came to.
    fn settle(&mut self, before: usize, result: Result<(), Fault>, now_ns: u64, out: &mut Vec<u8>) {
        self.client.wrote |= out.len() > before;
        let result = result.and_then(|()| match self.client.encoder.broken() {
            Some(fault) if self.decoder.done() && self.fault.is_none() => Err(fault.clone()),
            _ => Ok(()),
        });
        if let Err(fault) = result {
            if self.client.wrote {
                self.client.encoder.fault(&fault, now_ns, out);
            }
            self.fault = Some(fault);
            self.phase = Phase::Failed;
        } else if self.phase == Phase::Head && self.client.wrote {
            self.phase = Phase::Body;
        }
    }
}

/// One item of the stream to the client.
#[inline]
fn message(
    item: Item<'_>,
    decoder: &mut dyn Decode,
    client: &mut Client,
    now_ns: u64,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    match item {
        Item::Message { event: b"" | b"message", data } => {
            decoder.data(data, &mut |event| client.event(event, now_ns, out)).map_err(Stop)
        }
        Item::Message { event: b"error", data } => Err(Stop(decoder.refusal(500, data))),
        // Named events of an engine's own, and comments, say only that it lives.
        Item::Message { .. } | Item::Comment => Ok(()),
    }
}

impl Client {
    #[inline]
    fn event(&mut self, event: &Event<'_>, now_ns: u64, out: &mut Vec<u8>) {
        match event {
            Event::Text { .. } | Event::Reasoning { .. } | Event::CallStart { .. } => {
                self.first_ns.get_or_insert(now_ns);
            }
            Event::Finish { choice: 0, reason, .. } => self.finish = Some(*reason),
            Event::Usage { usage, .. } => self.usage = Some(*usage),
            _ => {}
        }
        if matches!(event, Event::Text { .. } | Event::Reasoning { .. } | Event::CallArguments { .. }) {
            self.pieces += 1;
        }
        if let Event::Text { choice, text } = event
            && let Some(all) = self.texts.get_mut(*choice as usize)
        {
            all.push_str(text);
        }
        if let Some(calls) = &mut self.calls {
            gather(calls, event);
        }
        self.encoder.event(event, now_ns, out);
    }
}

/// A call as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    of: (u32, u32),
    /// The tool.
    pub name: String,
    /// JSON, where the model made no mistake.
    pub arguments: String,
}

fn gather(calls: &mut Vec<Called>, event: &Event<'_>) {
    match event {
        Event::CallStart { choice, call, name, .. } => {
            calls.push(Called { of: (*choice, *call), name: name.clone().into_owned(), arguments: String::new() });
        }
        Event::CallArguments { choice, call, text } => {
            if let Some(one) = calls.iter_mut().rev().find(|one| one.of == (*choice, *call)) {
                one.arguments.push_str(text);
            }
        }
        _ => {}
    }
}

/// A place for each text that is to be checked against the shape that was asked for.
fn shaped(request: &Request) -> Vec<String> {
    let free = request.stream || matches!(request.format, Format::Text);
    vec![String::new(); if free { 0 } else { request.answers() as usize }]
}

/// A fault that ends the reading of a stream.
struct Stop(Fault);

impl From<sse::TooLong> for Stop {
    fn from(error: sse::TooLong) -> Self {
        Self(Fault::new(FaultKind::BadGateway, format!("The engine's answer cannot be read: {error}.")))
    }
}

fn malformed(error: http1::Error) -> Fault {
    let kind = if error == http1::Error::Cut { FaultKind::Cut } else { FaultKind::BadGateway };
    Fault::new(kind, format!("The engine's answer cannot be read: {error}."))
}

fn mode(head: &http1::Head) -> Result<Mode, Fault> {
    if head.status != 200 {
        return Ok(Mode::Refusal(head.status, Vec::new()));
    }
    match head.media_type().as_str() {
        "text/event-stream" => Ok(Mode::Stream),
        "application/json" => Ok(Mode::Whole(Vec::new())),
        "" => Err(Fault::new(FaultKind::BadGateway, "The engine answered without saying what its answer is.")),
        other => {
            let shown: String = other.chars().take(60).collect();
            Err(Fault::new(FaultKind::BadGateway, format!("The engine answered with {shown:?} instead of a stream.")))
        }
    }
}

#[cfg(test)]
mod tests;
