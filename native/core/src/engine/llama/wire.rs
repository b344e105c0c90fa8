//! The shapes of llama-server's payloads, borrowed from the payload. `null` and absent mean the same everywhere.
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// A string that borrows where it has no escapes; empty where it is `null`.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string or null")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// One payload of a stream, or a whole answer that was not streamed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub choices: Choices<'a>,
    pub usage: Option<Usage>,
    pub timings: Option<Timings>,
    pub prompt_progress: Option<Progress>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
    /// The native routes' text, which has no choices.
    #[serde(borrow)]
    pub content: Text<'a>,
    /// The native routes' end.
    pub stop: Option<bool>,
    #[serde(borrow)]
    pub stop_type: Text<'a>,
    #[serde(borrow)]
    pub stopping_word: Text<'a>,
    #[serde(borrow, rename = "__verbose")]
    pub verbose: Option<Verbose<'a>>,
}

/// The engine's own shape beside that of a compatible route; of the last chunks, the one that holds it may not be the
/// one that holds the end.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Verbose<'a> {
    #[serde(borrow)]
    pub stopping_word: Text<'a>,
}

/// The choices of a chunk. Nearly always there is one, which then costs no allocation.
#[derive(Debug, Default)]
pub(super) struct Choices<'a> {
    pub first: Option<Choice<'a>>,
    pub rest: Vec<Choice<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Choices<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Choices<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of choices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let first = items.next_element()?;
                let mut rest = Vec::new();
                while let Some(choice) = items.next_element()? {
                    rest.push(choice);
                }
                Ok(Choices { first, rest })
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Choices::default())
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A piece of one choice: chat's `delta` (or `message`), or the text route's `text`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    pub index: Option<u32>,
    #[serde(borrow, alias = "message")]
    pub delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub text: Text<'a>,
    #[serde(borrow)]
    pub finish_reason: Text<'a>,
    #[serde(borrow)]
    pub logprobs: Option<Logprobs<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub content: Text<'a>,
    #[serde(borrow)]
    pub reasoning_content: Text<'a>,
    #[serde(borrow)]
    pub reasoning: Text<'a>,
    #[serde(borrow)]
    pub tool_calls: Option<Vec<Call<'a>>>,
}

/// A fragment of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Call<'a> {
    pub index: Option<u32>,
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub function: Option<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    /// JSON text, or the object itself from some engines.
    #[serde(borrow)]
    pub arguments: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Logprobs<'a> {
    #[serde(borrow)]
    pub content: Option<Vec<Logprob<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Logprob<'a> {
    #[serde(borrow)]
    pub token: Text<'a>,
    pub logprob: Option<f64>,
    pub bytes: Option<Vec<u8>>,
    #[serde(borrow)]
    pub top_logprobs: Option<Vec<Logprob<'a>>>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub prompt_tokens_details: Option<PromptDetails>,
    pub completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct PromptDetails {
    pub cached_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompletionDetails {
    pub reasoning_tokens: Option<u64>,
}

/// Counts and milliseconds.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Timings {
    pub cache_n: Option<u64>,
    pub prompt_n: Option<u64>,
    pub prompt_ms: Option<f64>,
    pub predicted_n: Option<u64>,
    pub predicted_ms: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Progress {
    pub total: Option<u64>,
    pub processed: Option<u64>,
}
