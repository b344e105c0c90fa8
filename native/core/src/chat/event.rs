//! What an engine's answer consists of.
//!
//! Invariants that decoders keep and encoders may rely on, per choice: [`Event::Start`] before anything else; text and
//! reasoning never empty; one `CallStart` per call index; a `CallEnd` for each open call before `Finish`; exactly one
//! `Finish`; `Usage` at most once and after every `Finish`; `End` exactly once at the very end, unless a fault came.
use std::borrow::Cow;

/// Why a choice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// End of turn, or a stop sequence.
    Stop,
    /// The token limit or the context.
    Length,
    /// It calls tools.
    ToolCalls,
    /// A filter of the engine.
    ContentFilter,
}

/// Token counts of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens in all, cached ones included.
    pub prompt: u64,
    /// Prompt tokens that came from the engine's prefix cache.
    pub cached: u64,
    /// Generated tokens, over all choices.
    pub completion: u64,
    /// Generated tokens that were reasoning, where the engine says.
    pub reasoning: Option<u64>,
}

/// The engine's own timings, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Prompt evaluation.
    pub prompt_ns: u64,
    /// Generation.
    pub predicted_ns: u64,
}

/// One token's log probability, with the alternatives that were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// The token's text (replacement characters where it is not UTF-8 alone).
    pub token: String,
    /// Natural logarithm.
    pub logprob: f64,
    /// The token's bytes.
    pub bytes: Option<Vec<u8>>,
    /// Alternatives, likeliest first; their own `top` is empty.
    pub top: Vec<TokenLogprob>,
}

/// One step of an answer. `choice` counts from 0 to `n - 1`, `call` from 0 within a choice.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// The choice begins.
    Start { choice: u32 },
    /// A piece of reasoning.
    Reasoning { choice: u32, text: Cow<'a, str> },
    /// A piece of the visible answer.
    Text { choice: u32, text: Cow<'a, str> },
    /// A tool call begins.
    CallStart { choice: u32, call: u32, id: Cow<'a, str>, name: Cow<'a, str> },
    /// A fragment of a call's arguments (JSON text cut anywhere).
    CallArguments { choice: u32, call: u32, text: Cow<'a, str> },
    /// A tool call is complete.
    CallEnd { choice: u32, call: u32 },
    /// Log probabilities of the text that came with or before.
    Logprobs { choice: u32, tokens: Vec<TokenLogprob> },
    /// The choice ends; `stop` is the stop sequence that fired, where known.
    Finish { choice: u32, reason: Finish, stop: Option<Cow<'a, str>> },
    /// Counts and timings, merged over choices.
    Usage { usage: Usage, timings: Option<Timings> },
    /// Prompt evaluation moves: tokens done and in all.
    Progress { done: u64, total: u64 },
    /// The answer is complete.
    End,
}
