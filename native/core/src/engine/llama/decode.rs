//! The engine's stream to the waist's events.
use std::borrow::Cow;

use serde_json::value::RawValue;

use super::wire::{Call, Choice, Chunk, Failure, Logprobs, Refusal, Text, Token};
use crate::chat::{Event, Fault, FaultKind, Finish, Request, Timings, TokenLogprob, Usage};
use crate::engine::Decode;

/// Longest part of an engine's own words that is passed on.
const WORDS: usize = 600;
/// More choices, or more calls in one, than any engine is asked for.
const MANY: u32 = 1024;

type Sink<'s> = &'s mut dyn FnMut(&Event<'_>);

/// One call of a choice.
#[derive(Debug, Default)]
struct OpenCall {
    id: String,
    /// Arguments so far; needed to judge whether a call that the token limit cut is complete.
    arguments: String,
    started: bool,
    ended: bool,
}

/// Where one choice stands.
#[derive(Debug, Default)]
struct Progressing {
    started: bool,
    finished: bool,
    calls: Vec<OpenCall>,
}

/// See [`Decode`].
#[derive(Debug)]
pub struct Decoder {
    choices: Vec<Progressing>,
    /// Alternatives asked for: the engine may send more than that.
    top: usize,
    usage: Option<Usage>,
    timings: Option<Timings>,
    done: bool,
    /// Choices that must finish before the answer is complete.
    expected: u32,
}

impl Decoder {
    pub fn new(request: &Request) -> Self {
        Self {
            choices: Vec::new(),
            top: request.logprobs.map_or(0, usize::from),
            usage: None,
            timings: None,
            done: false,
            expected: request.n.max(1),
        }
    }

    fn choice(&mut self, choice: Choice<'_>, sink: Sink<'_>) -> Result<(), Fault> {
        let index = choice.index;
        if index >= MANY {
            return Err(Fault::new(FaultKind::BadGateway, format!("the engine sent a choice numbered {index}")));
        }
        let at = index as usize;
        if self.choices.len() <= at {
            self.choices.resize_with(at + 1, Progressing::default);
        }
        let state = &mut self.choices[at];
        if state.finished {
            return Ok(());
        }
        if !state.started {
            state.started = true;
            sink(&Event::Start { choice: index });
        }
        if let Some(tokens) = choice.logprobs.and_then(|Logprobs { content }| content).filter(|list| !list.is_empty()) {
            let tokens = tokens.into_iter().map(|token| logprob(token, self.top)).collect();
            sink(&Event::Logprobs { choice: index, tokens });
        }
        if let Some(delta) = choice.delta {
            if let Some(Text(text)) = delta.reasoning_content.filter(|text| !text.0.is_empty()) {
                sink(&Event::Reasoning { choice: index, text });
            }
            if let Some(Text(text)) = delta.content.filter(|text| !text.0.is_empty()) {
                state.end_calls(index, sink);
                sink(&Event::Text { choice: index, text });
            }
            for call in delta.tool_calls.unwrap_or_default() {
                state.call(index, &call, sink)?;
            }
        }
        if let Some(Text(text)) = choice.text.filter(|text| !text.0.is_empty()) {
            sink(&Event::Text { choice: index, text });
        }
        // Some servers send an empty reason where they mean none.
        if let Some(Text(reason)) = choice.finish_reason.filter(|reason| !reason.0.is_empty()) {
            state.finish(index, &reason, sink)?;
        }
        Ok(())
    }

    fn end_of_stream(&mut self, sink: Sink<'_>) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        if let Some(usage) = self.usage {
            sink(&Event::Usage { usage, timings: self.timings });
        }
        sink(&Event::End);
    }

    /// With `n` choices the engine counts each by itself and repeats the prompt.
    fn count(&mut self, usage: super::wire::Usage) {
        let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
        let so_far = self.usage.get_or_insert_default();
        so_far.prompt = so_far.prompt.max(usage.prompt_tokens);
        so_far.cached = so_far.cached.max(cached);
        so_far.completion += usage.completion_tokens;
        if let Some(reasoning) = usage.reasoning_tokens {
            so_far.reasoning = Some(so_far.reasoning.unwrap_or(0) + reasoning);
        }
    }

    fn time(&mut self, timings: super::wire::Timings) {
        let so_far = self.timings.get_or_insert_default();
        so_far.prompt_ns = so_far.prompt_ns.max(nanoseconds(timings.prompt_ms));
        so_far.predicted_ns = so_far.predicted_ns.max(nanoseconds(timings.predicted_ms));
        if self.usage.is_none()
            && let (Some(prompt), Some(predicted)) = (timings.prompt_n, timings.predicted_n)
        {
            let cached = timings.cache_n.unwrap_or(0);
            self.usage = Some(Usage { prompt: prompt + cached, cached, completion: predicted, reasoning: None });
        }
    }
}

impl Decode for Decoder {
    fn data(&mut self, payload: &[u8], sink: Sink<'_>) -> Result<(), Fault> {
        let payload = payload.trim_ascii();
        if payload == b"[DONE]" {
            return self.end(sink);
        }
        if self.done || payload.is_empty() {
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_slice(payload).map_err(|_| {
            Fault::new(FaultKind::BadGateway, format!("the engine sent something that is no JSON: {}", words(payload)))
        })?;
        if let Some(error) = chunk.error {
            return Err(failure(500, error));
        }
        if let Some(progress) = chunk.prompt_progress {
            sink(&Event::Progress { done: progress.processed, total: progress.total });
        }
        if let Some(usage) = chunk.usage {
            self.count(usage);
        }
        if let Some(timings) = chunk.timings {
            self.time(timings);
        }
        for choice in chunk.choices {
            self.choice(choice, sink)?;
        }
        Ok(())
    }

    fn end(&mut self, sink: Sink<'_>) -> Result<(), Fault> {
        if self.done {
            return Ok(());
        }
        let finished = self.choices.iter().filter(|choice| choice.finished).count();
        let whole = finished >= self.expected as usize && finished == self.choices.len();
        if !whole {
            return Err(Fault::new(FaultKind::Cut, "the engine's answer ended before it was complete"));
        }
        self.end_of_stream(sink);
        Ok(())
    }

    fn refusal(&mut self, status: u16, body: &[u8]) -> Fault {
        match serde_json::from_slice::<Refusal<'_>>(body) {
            Ok(refusal) => failure(status, refusal.error),
            Err(_) => by_status(status, format!("it answered with status {status}: {}", words(body))),
        }
    }

    fn done(&self) -> bool {
        self.done
    }
}

impl Progressing {
    fn call(&mut self, choice: u32, call: &Call<'_>, sink: Sink<'_>) -> Result<(), Fault> {
        let id = call.id.as_ref().map_or("", |id| id.0.as_ref());
        let at = match call.index {
            Some(index) if index < MANY => index as usize,
            Some(index) => {
                return Err(Fault::new(FaultKind::BadGateway, format!("the engine sent a call numbered {index}")));
            }
            // Without a number, a new id begins a new call and anything else goes on with the last.
            None if self.calls.is_empty()
                || (!id.is_empty() && self.calls.last().is_some_and(|last| last.id != id)) =>
            {
                self.calls.len()
            }
            None => self.calls.len() - 1,
        };
        if self.calls.len() <= at {
            self.calls.resize_with(at + 1, OpenCall::default);
        }
        for (number, before) in (0u32..).zip(&mut self.calls[..at]) {
            before.end(choice, number, sink);
        }
        let number = u32::try_from(at).unwrap_or(MANY);
        let open = &mut self.calls[at];
        if open.id.is_empty() && !id.is_empty() {
            id.clone_into(&mut open.id);
        }
        let Some(function) = &call.function else { return Ok(()) };
        let name = function.name.as_ref().map_or("", |name| name.0.as_ref());
        if !open.started && !name.is_empty() {
            open.started = true;
            sink(&Event::CallStart { choice, call: number, id: Cow::Borrowed(&open.id), name: Cow::Borrowed(name) });
        }
        let piece = arguments(function.arguments)?;
        if open.started && !open.ended && !piece.is_empty() {
            open.arguments.push_str(&piece);
            sink(&Event::CallArguments { choice, call: number, text: piece });
        }
        Ok(())
    }

    fn end_calls(&mut self, choice: u32, sink: Sink<'_>) {
        for (number, call) in (0u32..).zip(&mut self.calls) {
            call.end(choice, number, sink);
        }
    }

    fn finish(&mut self, choice: u32, reason: &str, sink: Sink<'_>) -> Result<(), Fault> {
        let called = self.calls.iter().any(|call| call.started);
        let reason = match reason {
            "stop" | "tool_calls" | "function_call" if called => Finish::ToolCalls,
            // The limit may have fallen exactly on the end of the last call.
            "length" if called && self.calls.iter().all(OpenCall::complete) => Finish::ToolCalls,
            "length" => Finish::Length,
            "content_filter" => Finish::ContentFilter,
            "abort" | "canceled" | "cancelled" => {
                return Err(Fault::new(FaultKind::BadGateway, "the engine gave the answer up"));
            }
            _ => Finish::Stop,
        };
        self.end_calls(choice, sink);
        self.finished = true;
        sink(&Event::Finish { choice, reason, stop: None });
        Ok(())
    }
}

impl OpenCall {
    fn end(&mut self, choice: u32, call: u32, sink: Sink<'_>) {
        if self.started && !std::mem::replace(&mut self.ended, true) {
            sink(&Event::CallEnd { choice, call });
        }
    }

    fn complete(&self) -> bool {
        self.started && serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }
}

/// A piece of arguments: the string's content, or an object as its JSON text.
fn arguments(raw: Option<&RawValue>) -> Result<Cow<'_, str>, Fault> {
    let Some(raw) = raw.map(RawValue::get) else { return Ok(Cow::Borrowed("")) };
    if raw.starts_with('"') {
        let text: Text<'_> = serde_json::from_str(raw)
            .map_err(|_| Fault::new(FaultKind::BadGateway, "the engine sent arguments that are no text"))?;
        return Ok(text.0);
    }
    Ok(Cow::Borrowed(if raw == "null" { "" } else { raw }))
}

fn logprob(token: Token, top: usize) -> TokenLogprob {
    TokenLogprob {
        token: token.token,
        // The engine writes minus infinity as the lowest number there is.
        logprob: token.logprob.max(-9999.0),
        bytes: token.bytes,
        top: token.top_logprobs.into_iter().take(top).map(|one| logprob(one, 0)).collect(),
    }
}

fn failure(status: u16, raw: &RawValue) -> Fault {
    let Ok(said) = serde_json::from_str::<Failure>(raw.get()) else {
        return by_status(status, words(raw.get().trim_matches('"').as_bytes()));
    };
    let code = said.code.as_ref().and_then(serde_json::Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let status = code.filter(|code| (400..600).contains(code)).unwrap_or(status);
    let message = words(said.message.as_deref().unwrap_or("no reason given").as_bytes());
    if said.kind.as_deref() == Some("exceed_context_size_error") {
        let mut fault = Fault::new(FaultKind::PromptTooLong, message);
        (fault.tokens, fault.context) = (said.n_prompt_tokens, said.n_ctx);
        return fault;
    }
    by_status(status, message)
}

fn by_status(status: u16, message: String) -> Fault {
    let kind = match status {
        // The engine's JSON library speaks of its own insides; the request was ours, so the fault is too.
        400 if message.contains("json.exception") => FaultKind::Internal,
        400 | 404 | 422 => FaultKind::BadRequest,
        501 => FaultKind::Unsupported,
        503 => FaultKind::Unavailable,
        // Wrong input that the engine notices late: too long for its batch.
        500 if message.contains("too large to process") => FaultKind::BadRequest,
        _ => FaultKind::BadGateway,
    };
    Fault::new(kind, message)
}

fn words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(WORDS)]);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// Milliseconds as the engine writes them; a number that is none counts as nothing.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be finite and not negative")]
fn nanoseconds(ms: f64) -> u64 {
    if ms.is_finite() && ms > 0.0 { (ms * 1e6) as u64 } else { 0 }
}
