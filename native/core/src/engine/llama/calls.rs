//! Tool calls of one choice, put together from fragments.
use super::wire;
use crate::chat::{Event, Fault, FaultKind};
use std::borrow::Cow;

/// Gets what a fragment means.
type Sink<'s> = &'s mut dyn FnMut(&Event<'_>);

#[derive(Debug)]
struct Call {
    /// The engine's own number, where it gave one.
    index: Option<u32>,
    /// Held until the name is known.
    id: String,
    /// Argument text held until the name is known.
    held: String,
    started: bool,
    /// Some argument text was given on.
    has_arguments: bool,
    ended: bool,
}

/// The calls of one choice, in the order in which they began; at most the last is open.
#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Call>,
}

impl Calls {
    /// Whether there was any call.
    pub fn any(&self) -> bool {
        !self.list.is_empty()
    }

    /// One fragment. `answer` is the id of the engine's answer, from which an id is made where the call has none.
    pub fn fragment(&mut self, choice: u32, answer: &str, piece: &wire::Call<'_>, sink: Sink<'_>) -> Result<(), Fault> {
        let at = match self.position(piece) {
            Some(at) => at,
            None => self.open(choice, answer, piece, sink),
        };
        let number = number(at);
        let call = &mut self.list[at];
        let Some(function) = &piece.function else {
            return Ok(());
        };
        let arguments = arguments(function)?;
        if call.ended {
            if arguments.is_empty() {
                return Ok(());
            }
            return Err(Fault::new(FaultKind::BadGateway, "The engine went back to a tool call that it had ended."));
        }
        if !call.started && function.name.0.is_empty() {
            call.held.push_str(&arguments);
            return Ok(());
        }
        if !call.started {
            call.start(choice, number, &function.name.0, sink);
        }
        call.give(choice, number, &arguments, sink);
        Ok(())
    }

    /// A whole call at once, whose arguments are JSON text.
    pub fn whole(&mut self, choice: u32, answer: &str, name: &str, arguments: &str, sink: Sink<'_>) {
        let at = self.open(choice, answer, &wire::Call::default(), sink);
        let call = &mut self.list[at];
        call.start(choice, number(at), name, sink);
        call.give(choice, number(at), arguments, sink);
        self.close(choice, sink);
    }

    /// Close the open call, if there is one.
    pub fn close(&mut self, choice: u32, sink: Sink<'_>) {
        let Some(number) = self.list.len().checked_sub(1).map(number) else {
            return;
        };
        let Some(call) = self.list.last_mut().filter(|call| !call.ended) else {
            return;
        };
        if !call.started {
            call.start(choice, number, "", sink);
        }
        if !call.has_arguments {
            call.give(choice, number, "{}", sink);
        }
        call.ended = true;
        sink(&Event::CallEnd { choice, call: number });
    }

    /// Which known call a fragment belongs to.
    fn position(&self, piece: &wire::Call<'_>) -> Option<usize> {
        if piece.index.is_some() {
            return self.list.iter().position(|call| call.index == piece.index);
        }
        let last = self.list.last()?;
        let same = piece.id.0.is_empty() || last.id == piece.id.0;
        same.then(|| self.list.len() - 1)
    }

    fn open(&mut self, choice: u32, answer: &str, piece: &wire::Call<'_>, sink: Sink<'_>) -> usize {
        self.close(choice, sink);
        let at = self.list.len();
        let id = if piece.id.0.is_empty() {
            let seed: String = answer.chars().filter(char::is_ascii_alphanumeric).collect();
            let tail = &seed[seed.len().saturating_sub(20)..];
            format!("call_{tail}_{choice}_{at}")
        } else {
            piece.id.0.clone().into_owned()
        };
        self.list.push(Call {
            index: piece.index,
            id,
            held: String::new(),
            started: false,
            has_arguments: false,
            ended: false,
        });
        at
    }
}

impl Call {
    fn start(&mut self, choice: u32, call: u32, name: &str, sink: Sink<'_>) {
        self.started = true;
        sink(&Event::CallStart { choice, call, id: Cow::Borrowed(&self.id), name: Cow::Borrowed(name) });
        let held = std::mem::take(&mut self.held);
        self.give(choice, call, &held, sink);
    }

    fn give(&mut self, choice: u32, call: u32, text: &str, sink: Sink<'_>) {
        if !text.is_empty() {
            self.has_arguments = true;
            sink(&Event::CallArguments { choice, call, text: Cow::Borrowed(text) });
        }
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Argument text of a fragment: a string's content, or the raw text of an object.
fn arguments<'a>(function: &wire::Function<'a>) -> Result<Cow<'a, str>, Fault> {
    let Some(raw) = function.arguments else {
        return Ok(Cow::Borrowed(""));
    };
    let text = raw.get();
    if !text.starts_with('"') {
        return Ok(Cow::Borrowed(if text == "null" { "" } else { text }));
    }
    serde_json::from_str::<wire::Text<'a>>(text)
        .map(|text| text.0)
        .map_err(|_| Fault::new(FaultKind::BadGateway, "The engine sent a tool call that cannot be read."))
}
