//! Turns to the messages that llama-server's templates are given.
use crate::chat::{Part, Role, Turn};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    pub role: &'static str,
    pub content: Content<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reasoning_content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
}

/// Text alone is a string, since some templates cannot read lists.
#[derive(Debug, Default)]
pub(super) struct Content<'a>(Vec<Piece<'a>>);

#[derive(Debug)]
enum Piece<'a> {
    Text(Cow<'a, str>),
    Image { mime: &'a str, base64: &'a str },
    Audio { format: &'a str, base64: &'a str },
}

#[derive(Debug, Serialize)]
pub(super) struct ToolCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Debug, Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// The messages of a conversation: results become messages of their own in front of what was said with them, turns of
/// one speaker in a row become one (strict templates want them to alternate), and reasoning is kept only since the
/// person last spoke.
pub(super) fn messages(turns: &[Turn]) -> Vec<Message<'_>> {
    let is_question = |turn: &Turn| turn.role == Role::User && says_more_than_results(turn);
    let current = turns.iter().rposition(is_question).unwrap_or(0);
    let mut list: Vec<Message<'_>> = Vec::with_capacity(turns.len());
    for (at, turn) in turns.iter().enumerate() {
        for part in &turn.parts {
            if let Part::Result { id, name, text, .. } = part {
                let mut message = Message::new("tool");
                message.content.text(text, "");
                message.tool_call_id = Some(id);
                message.name = name.as_deref();
                list.push(message);
            }
        }
        let role = match turn.role {
            Role::System => "system",
            // A tool's turn holds results; what else it holds (images) is shown as the person's.
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        if !says_more_than_results(turn) {
            continue;
        }
        // A new message, or more of the last one.
        let (mut message, mut separator) = match list.pop_if(|open| open.role == role) {
            Some(open) => (open, "\n\n"),
            None => (Message::new(role), "\n"),
        };
        for item in &turn.parts {
            match item {
                Part::Text(text) => {
                    message.content.text(text, separator);
                    separator = "\n";
                }
                Part::Image { mime, base64 } => message.content.0.push(Piece::Image { mime, base64 }),

                Part::Audio { format, base64 } => message.content.0.push(Piece::Audio { format, base64 }),
                Part::Reasoning { text, .. } if at >= current => join(&mut message.reasoning_content, text, "\n"),
                // Callers bring linked images before; an engine is never sent anywhere.
                Part::Reasoning { .. } | Part::Result { .. } | Part::Link(_) => {}
                Part::Call { id, name, arguments } => message.tool_calls.push(ToolCall {
                    id,
                    r#type: "function",
                    function: CalledFunction { name, arguments },
                }),
            }
        }
        list.push(message);
    }
    list
}

fn says_more_than_results(turn: &Turn) -> bool {
    turn.parts.iter().any(|part| !matches!(part, Part::Result { .. }))
}

impl Message<'_> {
    fn new(role: &'static str) -> Self {
        Self {
            role,
            content: Content::default(),
            reasoning_content: Cow::Borrowed(""),
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
        }
    }

    /// The engine is to go on with this message, rather than answer it.
    pub fn is_prefill(&self) -> bool {
        self.role == "assistant" && self.tool_calls.is_empty()
    }
}

impl<'a> Content<'a> {
    /// Append text; text that follows text is joined by `separator`.
    fn text(&mut self, text: &'a str, separator: &str) {
        if let Some(Piece::Text(last)) = self.0.last_mut() {
            join(last, text, separator);
        } else {
            self.0.push(Piece::Text(Cow::Borrowed(text)));
        }
    }
}

fn join<'a>(all: &mut Cow<'a, str>, more: &'a str, separator: &str) {
    if all.is_empty() {
        *all = Cow::Borrowed(more);
    } else if !more.is_empty() {
        let all = all.to_mut();
        all.push_str(separator);
        all.push_str(more);
    }
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            // Not null: templates concatenate it.
            [] => serializer.serialize_str(""),
            [Piece::Text(text)] => serializer.serialize_str(text),
            pieces => serializer.collect_seq(pieces),
        }
    }
}

/// Straight into the body: an image may have many megabytes.
fn data_url<S: Serializer>((mime, base64): &(&str, &str), serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("data:{mime};base64,{base64}"))
}

impl Serialize for Piece<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Wire<'a> {
            Text { text: &'a str },
            ImageUrl { image_url: Url<'a> },
            InputAudio { input_audio: Sound<'a> },
        }
        #[derive(Serialize)]
        struct Url<'a> {
            #[serde(serialize_with = "data_url")]
            url: (&'a str, &'a str),
        }
        #[derive(Serialize)]
        struct Sound<'a> {
            data: &'a str,
            format: &'a str,
        }
        match self {
            Self::Text(text) => Wire::Text { text },
            Self::Image { mime, base64 } => Wire::ImageUrl { image_url: Url { url: (mime, base64) } },
            Self::Audio { format, base64 } => Wire::InputAudio { input_audio: Sound { data: base64, format } },
        }
        .serialize(serializer)
    }
}
