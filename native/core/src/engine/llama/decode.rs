//! llama-server's stream to events.
use super::{
    calls::Calls,
    counts::Counts,
    refusal,
    wire::{self, Chunk, Logprob},
};
use crate::{
    chat::{Event, Fault, FaultKind, Finish, Prompt, Request, TokenLogprob},
    engine::{
        Decode,
        spoken::{Held, Spoken},
        thoughts::{Piece, Thoughts},
    },
};
use std::borrow::Cow;

/// The least log probability that is told: engines write minus infinity as the lowest number there is.
const LEAST: f64 = -9999.0;

/// Reads the stream of a chat or a text request.
#[derive(Debug)]
pub struct Decoder {
    choices: Vec<Choice>,
    expected: usize,
    /// Answers to each prompt.
    each: u64,
    keep_top: bool,
    counts: Counts,
    /// Calls that come as text, where tools are offered.
    spoken: Option<Spoken>,
    /// The model's template is used, so that reasoning may come as text.
    chats: bool,
    /// The answer is complete though the engine would go on.
    hangs_up: bool,
    done: bool,
}

/// Where one choice stands.
#[derive(Debug, Default)]
struct Choice {
    started: bool,
    finished: bool,
    calls: Calls,
    stop: Option<String>,
    held: Held,
    thoughts: Thoughts,
}

impl Decoder {
    /// A reader of the answer to `request`.
    pub fn new(request: &Request) -> Self {
        Self {
            choices: Vec::new(),
            expected: request.answers() as usize,
            each: u64::from(request.n.max(1)),
            keep_top: request.logprobs != Some(0),
            counts: Counts::default(),
            spoken: Spoken::of(request),
            chats: matches!(request.prompt, Prompt::Chat(_)),
            hangs_up: false,
            done: false,
        }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, sink: &mut dyn FnMut(&Event<'_>)) -> Result<(), Fault> {
        if let Some(error) = chunk.error.filter(|raw| raw.get() != "null") {
            let value = serde_json::from_str(error.get()).unwrap_or_default();
            return Err(refusal::from_value(None, &value));
        }
        if let Some(progress) = &chunk.prompt_progress {
            let (done, total) = (progress.processed.unwrap_or(0), progress.total.unwrap_or(0));
            sink(&Event::Progress { done, total });
            let says_more = chunk.choices.first.as_ref().is_some_and(|choice| {
                choice.delta.as_ref().is_some_and(|delta| !delta.content.0.is_empty() || delta.tool_calls.is_some())
                    || !choice.text.0.is_empty()
                    || !choice.finish_reason.0.is_empty()
            });
            if !says_more {
                return Ok(());
            }
        }
        for choice in chunk.choices.first.iter().chain(&chunk.choices.rest) {
            let stop = chunk.verbose.as_ref().map_or("", |verbose| &verbose.stopping_word.0);
            self.choice(choice, &chunk.id.0, stop, sink)?;
        }
        if chunk.stop.is_some() {
            self.native(chunk, sink);
        }
        self.counts.add(chunk, self.expected);
        if self.hangs_up && !self.done {
            self.finish_stream(sink);
        }
        Ok(())
    }

    /// A chunk of a native route (`/infill`): text beside the end's mark.
    fn native(&mut self, chunk: &Chunk<'_>, sink: &mut dyn FnMut(&Event<'_>)) {
        if self.choices.is_empty() {
            self.choices.push(Choice::default());
        }
        let state = &mut self.choices[0];
        if state.finished {
            return;
        }
        state.start(0, sink);
        if !chunk.content.0.is_empty() {
            sink(&Event::Text { choice: 0, text: Cow::Borrowed(&chunk.content.0) });
        }
        if chunk.stop == Some(true) {
            let reason = if chunk.stop_type.0 == "limit" { Finish::Length } else { Finish::Stop };
            let word = &chunk.stopping_word.0;
            state.finish(0, reason, (!word.is_empty()).then_some(word), sink);
        }
    }

    fn choice(
        &mut self,
        piece: &wire::Choice<'_>,
        answer: &str,
        stop: &str,
        sink: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), Fault> {
        let choice = piece.index.unwrap_or(0);
        let at = choice as usize;
        if at >= self.expected {
            return Err(Fault::new(FaultKind::BadGateway, "The engine sent more answers than it was asked for."));
        }
        if at >= self.choices.len() {
            self.choices.resize_with(at + 1, Choice::default);
        }
        let state = &mut self.choices[at];
        if state.finished {
            return Ok(());
        }
        state.start(choice, sink);
        if !stop.is_empty() {
            state.stop = Some(stop.to_owned());
        }
        let mut text = &piece.text.0;
        if let Some(delta) = &piece.delta {
            let reasoning =
                if delta.reasoning_content.0.is_empty() { &delta.reasoning.0 } else { &delta.reasoning_content.0 };
            if !reasoning.is_empty() {
                state.thoughts.pass();
                sink(&Event::Reasoning { choice, text: Cow::Borrowed(reasoning) });
            }
            if !delta.content.0.is_empty() {
                text = &delta.content.0;
            }
        }
        let text = if self.chats && !text.is_empty() && !state.thoughts.is_past() {
            Cow::Owned(state.think(choice, text, sink))
        } else {
            Cow::Borrowed(text.as_ref())
        };
        let text = match &self.spoken {
            Some(spoken) if !text.is_empty() => Cow::Owned(spoken.hear(&mut state.held, &text).into_owned()),
            _ => text,
        };
        state.say(choice, &text, sink);
        if self.expected == 1 && self.spoken.as_ref().is_some_and(|spoken| spoken.enough(&state.held)) {
            // Engines go on to the limit; hanging up stops them.
            self.end_choice(at, answer, Finish::ToolCalls, sink);
            self.hangs_up = true;
            return Ok(());
        }
        for call in piece.delta.iter().filter_map(|delta| delta.tool_calls.as_deref()).flatten() {
            state.thought(choice, sink);
            let held = state.held.release();
            state.say(choice, &held, sink);
            state.calls.fragment(choice, answer, call, sink)?;
        }
        if let Some(items) = piece.logprobs.as_ref().and_then(|logprobs| logprobs.content.as_deref())
            && !items.is_empty()
        {
            let tokens = items.iter().map(|item| logprob(item, self.keep_top)).collect();
            sink(&Event::Logprobs { choice, tokens });
        }
        let reason = match piece.finish_reason.0.as_ref() {
            "" => return Ok(()),
            "length" => Finish::Length,
            "tool_calls" | "function_call" => Finish::ToolCalls,
            "content_filter" => Finish::ContentFilter,
            "abort" | "canceled" | "cancelled" => {
                return Err(Fault::new(FaultKind::BadGateway, "The engine gave the answer up."));
            }
            _ => Finish::Stop,
        };
        state.thought(choice, sink);
        self.end_choice(at, answer, reason, sink);
        Ok(())
    }

    /// The choice at `at` ends with `reason`, unless what was held back turns out to be calls.
    fn end_choice(&mut self, at: usize, answer: &str, reason: Finish, sink: &mut dyn FnMut(&Event<'_>)) {
        let state = &mut self.choices[at];
        let choice = u32::try_from(at).unwrap_or(u32::MAX);
        let calls = self.spoken.as_ref().map_or_else(Vec::new, |spoken| spoken.calls(&state.held));
        let held = state.held.release();
        if calls.is_empty() {
            state.say(choice, &held, sink);
            let stop = state.stop.take().filter(|_| reason == Finish::Stop);
            state.finish(choice, reason, stop.map(Cow::Owned).as_ref(), sink);
            return;
        }
        for (name, arguments) in &calls {
            state.calls.whole(choice, answer, name, arguments, sink);
        }
        state.finish(choice, Finish::ToolCalls, None, sink);
    }

    fn finish_stream(&mut self, sink: &mut dyn FnMut(&Event<'_>)) {
        self.choices.resize_with(self.expected, Choice::default);
        for (number, state) in (0..).zip(&mut self.choices) {
            if !state.finished {
                state.start(number, sink);
                state.thought(number, sink);
                let held = state.held.release();
                state.say(number, &held, sink);
                state.finish(number, Finish::Stop, None, sink);
            }
        }
        if let Some((usage, timings)) = self.counts.merged(self.each) {
            sink(&Event::Usage { usage, timings });
        }
        self.done = true;
        sink(&Event::End);
    }
}

impl Decode for Decoder {
    fn data(&mut self, payload: &[u8], sink: &mut dyn FnMut(&Event<'_>)) -> Result<(), Fault> {
        if self.done {
            return Ok(());
        }
        if payload.trim_ascii() == b"[DONE]" {
            self.finish_stream(sink);
            return Ok(());
        }
        // What an answer without text yet says, where several prompts were given.
        if payload.trim_ascii() == b"null" {
            return Ok(());
        }
        match serde_json::from_slice::<Chunk<'_>>(payload) {
            Ok(chunk) => self.chunk(&chunk, sink),
            Err(error) if std::str::from_utf8(payload).is_ok() => Err(unreadable(&error)),
            // Engines that let half a character through: it becomes a replacement character.
            Err(_) => {
                let text = String::from_utf8_lossy(payload);
                let chunk = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
                self.chunk(&chunk, sink)
            }
        }
    }

    fn end(&mut self, sink: &mut dyn FnMut(&Event<'_>)) -> Result<(), Fault> {
        if self.done {
            return Ok(());
        }
        let finished = self.choices.iter().filter(|choice| choice.finished).count();
        if finished < self.expected {
            return Err(Fault::new(FaultKind::Cut, "The engine's answer ended before it was complete."));
        }
        self.finish_stream(sink);
        Ok(())
    }

    fn refusal(&mut self, status: u16, body: &[u8]) -> Fault {
        refusal::from_body(status, body)
    }

    fn done(&self) -> bool {
        self.done
    }
}

impl Choice {
    fn start(&mut self, choice: u32, sink: &mut dyn FnMut(&Event<'_>)) {
        if !std::mem::replace(&mut self.started, true) {
            sink(&Event::Start { choice });
        }
    }

    /// Take apart what may be reasoning; the text that is none.
    fn think(&mut self, choice: u32, text: &str, sink: &mut dyn FnMut(&Event<'_>)) -> String {
        let mut said = String::new();
        for piece in self.thoughts.hear(text) {
            match piece {
                Piece::Reasoning(text) => sink(&Event::Reasoning { choice, text: Cow::Owned(text) }),
                Piece::Text(text) => said.push_str(&text),
            }
        }
        said
    }

    /// No more text comes: what was held of it.
    fn thought(&mut self, choice: u32, sink: &mut dyn FnMut(&Event<'_>)) {
        match self.thoughts.release() {
            Some(Piece::Reasoning(text)) => sink(&Event::Reasoning { choice, text: Cow::Owned(text) }),
            Some(Piece::Text(text)) => self.say(choice, &text, sink),
            None => {}
        }
    }

    fn say(&mut self, choice: u32, text: &str, sink: &mut dyn FnMut(&Event<'_>)) {
        if !text.is_empty() {
            self.calls.close(choice, sink);
            sink(&Event::Text { choice, text: Cow::Borrowed(text) });
        }
    }

    fn finish(&mut self, choice: u32, reason: Finish, stop: Option<&Cow<'_, str>>, sink: &mut dyn FnMut(&Event<'_>)) {
        self.calls.close(choice, sink);
        self.finished = true;
        let reason = if reason == Finish::Stop && self.calls.any() { Finish::ToolCalls } else { reason };
        let stop = stop.map(|word| Cow::Borrowed(word.as_ref()));
        sink(&Event::Finish { choice, reason, stop });
    }
}

fn unreadable(error: &serde_json::Error) -> Fault {
    let at = error.column();
    Fault::new(FaultKind::BadGateway, format!("The engine sent a chunk that cannot be read (at byte {at})."))
}

fn logprob(item: &Logprob<'_>, keep_top: bool) -> TokenLogprob {
    let tops = item.top_logprobs.as_deref().filter(|_| keep_top).unwrap_or_default();
    TokenLogprob {
        token: item.token.0.clone().into_owned(),
        logprob: item.logprob.unwrap_or(LEAST).max(LEAST),
        bytes: item.bytes.clone(),
        top: tops.iter().map(|top| logprob(top, false)).collect(),
    }
}
