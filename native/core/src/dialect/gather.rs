//! A whole answer, gathered from its events for the writers of single bodies.
use crate::chat::{Event, Finish, Timings, TokenLogprob, Usage};

/// A run of one kind within an answer, in the order in which they came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Reasoning(String),
    Text(String),
    Call(Call),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub call: u32,
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// One choice.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub pieces: Vec<Piece>,
    /// Of the visible text only.
    pub logprobs: Vec<TokenLogprob>,
    pub finish: Option<Finish>,
    pub stop: Option<String>,
}

impl Choice {
    pub fn text(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None })
    }

    pub fn reasoning(&self) -> impl Iterator<Item = &str> {
        self.pieces
            .iter()
            .filter_map(|piece| if let Piece::Reasoning(text) = piece { Some(text.as_str()) } else { None })
    }

    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.pieces.iter().filter_map(|piece| if let Piece::Call(call) = piece { Some(call) } else { None })
    }

    fn call(&mut self, number: u32) -> Option<&mut Call> {
        self.pieces.iter_mut().rev().find_map(|piece| match piece {
            Piece::Call(call) if call.call == number => Some(call),
            _ => None,
        })
    }
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub choices: Vec<Choice>,
    pub usage: Option<Usage>,
    pub timings: Option<Timings>,
    /// The answer failed: nothing is written of it.
    pub failed: bool,
}

impl Gathered {
    /// For `n` choices; what an engine says of further ones is ignored.
    pub fn new(n: u32) -> Self {
        Self { choices: (0..n.max(1)).map(|_| Choice::default()).collect(), usage: None, timings: None, failed: false }
    }

    /// Take in one event. True: the answer is complete.
    pub fn event(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Start { .. } | Event::CallEnd { .. } | Event::Progress { .. } => {}
            Event::Usage { usage, timings } => {
                self.usage = Some(*usage);
                self.timings = *timings;
            }
            Event::End => return !self.failed,
            Event::Reasoning { choice, .. }
            | Event::Text { choice, .. }
            | Event::CallStart { choice, .. }
            | Event::CallArguments { choice, .. }
            | Event::Logprobs { choice, .. }
            | Event::Finish { choice, .. } => {
                if let Some(choice) = self.choices.get_mut(*choice as usize) {
                    add(choice, event);
                }
            }
        }
        false
    }
}

fn add(choice: &mut Choice, event: &Event<'_>) {
    match event {
        Event::Reasoning { text, .. } => match choice.pieces.last_mut() {
            Some(Piece::Reasoning(all)) => all.push_str(text),
            _ => choice.pieces.push(Piece::Reasoning(text.clone().into_owned())),
        },
        Event::Text { text, .. } => match choice.pieces.last_mut() {
            Some(Piece::Text(all)) => all.push_str(text),
            _ => choice.pieces.push(Piece::Text(text.clone().into_owned())),
        },
        Event::CallStart { call, id, name, .. } => choice.pieces.push(Piece::Call(Call {
            call: *call,
            id: id.clone().into_owned(),
            name: name.clone().into_owned(),
            arguments: String::new(),
        })),
        Event::CallArguments { call, text, .. } => {
            if let Some(call) = choice.call(*call) {
                call.arguments.push_str(text);
            }
        }
        Event::Logprobs { tokens, .. }
            if !matches!(choice.pieces.last(), Some(Piece::Reasoning(_) | Piece::Call(_))) =>
        {
            choice.logprobs.extend_from_slice(tokens);
        }
        Event::Finish { reason, stop, .. } => {
            choice.finish = Some(*reason);
            choice.stop = stop.as_ref().map(|stop| stop.clone().into_owned());
        }
        _ => {}
    }
}
