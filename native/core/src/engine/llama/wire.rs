//! The engine's payloads as they come over the wire, borrowed from the input wherever JSON allows it.
use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Text that borrows through an `Option`, which a bare `Cow` does not.
#[derive(Debug, Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

#[derive(Debug, Deserialize)]
pub struct Chunk<'a> {
    #[serde(borrow, default)]
    pub choices: Vec<Choice<'a>>,
    #[serde(default)]
    pub usage: Option<Usage>,
    #[serde(default)]
    pub timings: Option<Timings>,
    #[serde(default)]
    pub prompt_progress: Option<Progress>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub struct Choice<'a> {
    #[serde(default)]
    pub index: u32,
    /// A whole answer has `message` where a stream has `delta`.
    #[serde(borrow, default, alias = "message")]
    pub delta: Option<Delta<'a>>,
    /// `/v1/completions`.
    #[serde(borrow, default)]
    pub text: Option<Text<'a>>,
    #[serde(default)]
    pub logprobs: Option<Logprobs>,
    #[serde(borrow, default)]
    pub finish_reason: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub struct Delta<'a> {
    #[serde(borrow, default)]
    pub content: Option<Text<'a>>,
    #[serde(borrow, default, alias = "reasoning")]
    pub reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Debug, Deserialize)]
pub struct Call<'a> {
    #[serde(default)]
    pub index: Option<u32>,
    #[serde(borrow, default)]
    pub id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
pub struct Function<'a> {
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// A string with a piece of JSON, or from some servers the object itself.
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub struct Logprobs {
    #[serde(default)]
    pub content: Option<Vec<Token>>,
}

#[derive(Debug, Deserialize)]
pub struct Token {
    #[serde(default)]
    pub token: String,
    pub logprob: f64,
    #[serde(default)]
    pub bytes: Option<Vec<u8>>,
    #[serde(default)]
    pub top_logprobs: Vec<Token>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub prompt_tokens: u64,
    #[serde(default)]
    pub completion_tokens: u64,
    #[serde(default)]
    pub prompt_tokens_details: Option<Cached>,
    #[serde(default)]
    pub reasoning_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Cached {
    #[serde(default)]
    pub cached_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Timings {
    #[serde(default)]
    pub cache_n: Option<u64>,
    #[serde(default)]
    pub prompt_n: Option<u64>,
    #[serde(default)]
    pub prompt_ms: f64,
    #[serde(default)]
    pub predicted_n: Option<u64>,
    #[serde(default)]
    pub predicted_ms: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Progress {
    #[serde(default)]
    pub total: u64,
    #[serde(default)]
    pub processed: u64,
}

/// The inside of `error`.
#[derive(Debug, Deserialize)]
pub struct Failure {
    #[serde(default)]
    pub message: Option<String>,
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    #[serde(default)]
    pub code: Option<serde_json::Value>,
    #[serde(default)]
    pub n_prompt_tokens: Option<u64>,
    #[serde(default)]
    pub n_ctx: Option<u64>,
}

/// A body with nothing but an error in it.
#[derive(Debug, Deserialize)]
pub struct Refusal<'a> {
    #[serde(borrow)]
    pub error: &'a RawValue,
}
