//! Which conversation a request goes on with, so that it is put where the engine still has the beginning of it.
use super::request::{Part, Prompt, Request, Role, Turn};
use std::hash::{DefaultHasher, Hash, Hasher};

/// An image costs about as much as a page of text.
const IMAGE: usize = 2048;
/// Of a text without turns, so many bytes tell it from others, and so many may be common to several.
const TEXT: usize = 1024;
const TEXT_HEAD: usize = 256;

/// What two requests have in common at their beginning, if they have. Digests are of one process and one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seating {
    /// Equal in all requests of a conversation: of its tools, its instructions and the first thing that was said.
    pub conversation: u64,
    /// Of the tools and the instructions alone; 0 without any.
    pub head: u64,
    /// Bytes of these.
    pub head_bytes: usize,
    /// Bytes of the whole prompt.
    pub bytes: usize,
}

impl Request {
    /// Where it begins, if it takes one place of the engine and no more.
    pub fn seating(&self) -> Option<Seating> {
        if self.answers() > 1 || self.load_only {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        let (head, head_bytes) = match &self.prompt {
            Prompt::Chat(turns) => {
                let mut size = 0;
                for tool in &self.tools {
                    let parameters = tool.parameters.as_ref().map_or("", |schema| schema.get());
                    (&tool.name, &tool.description, parameters).hash(&mut hasher);
                    size += tool.name.len() + tool.description.as_ref().map_or(0, String::len) + parameters.len();
                }
                let mut rest = turns.iter();
                let first = rest.find(|turn| {
                    let instructs = turn.role == Role::System;
                    if instructs {
                        hash(turn, &mut hasher);
                        size += turn.parts.iter().map(Part::bytes).sum::<usize>();
                    }
                    !instructs
                });
                let head = if size > 0 { hasher.finish() } else { 0 };
                if let Some(turn) = first {
                    hash(turn, &mut hasher);
                }
                (head, size)
            }
            Prompt::Text { prompt, .. } => {
                let bytes = prompt.as_bytes();
                let common = bytes.get(..TEXT_HEAD);
                let head = common.map_or(0, |common| {
                    common.hash(&mut hasher);
                    hasher.finish()
                });
                bytes[..bytes.len().min(TEXT)].hash(&mut hasher);
                (head, common.map_or(0, <[u8]>::len))
            }
            Prompt::Tokens(tokens) => {
                tokens[..tokens.len().min(TEXT_HEAD)].hash(&mut hasher);
                (0, 0)
            }
            Prompt::Several(_) => return None,
        };
        Some(Seating { conversation: hasher.finish(), head, head_bytes, bytes: self.prompt.bytes() })
    }
}

fn hash(turn: &Turn, hasher: &mut DefaultHasher) {
    for part in &turn.parts {
        match part {
            Part::Text(text) | Part::Reasoning { text, .. } | Part::Link(text) | Part::Result { text, .. } => {
                text.hash(hasher);
            }
            // Two that differ in the middle only are rare, and all that is at stake is speed.
            Part::Image { base64, .. } | Part::Audio { base64, .. } => {
                (base64.len(), &base64.as_bytes()[..base64.len().min(TEXT)]).hash(hasher);
            }
            Part::Call { name, arguments, .. } => (name, arguments).hash(hasher),
        }
    }
}

impl Part {
    /// Bytes of text, or of what costs about as much.
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning { text, .. } | Self::Result { text, .. } => text.len(),
            Self::Call { arguments, .. } => arguments.len(),
            Self::Image { .. } | Self::Link(_) | Self::Audio { .. } => IMAGE,
        }
    }
}

impl Prompt {
    /// Bytes of text, or of what costs about as much.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Chat(turns) => turns.iter().flat_map(|turn| &turn.parts).map(Part::bytes).sum(),
            Self::Text { prompt, .. } => prompt.len(),
            Self::Tokens(tokens) => tokens.len() * 4,
            Self::Several(prompts) => prompts.iter().map(Self::bytes).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Seating;
    use crate::dialect::Route;

    fn of(body: &str) -> Seating {
        Route::OpenaiChat.parse(body.as_bytes()).unwrap().seating().unwrap()
    }

    fn chat(system: &str, rest: &str) -> String {
        format!(r#"{{"model":"m","messages":[{{"role":"system","content":"{system}"}}{rest}]}}"#)
    }

    const FIRST: &str = r#",{"role":"user","content":"one"}"#;

    #[test]
    fn a_conversation_is_known_by_its_beginning() {
        let more = format!(r#"{FIRST},{{"role":"assistant","content":"a"}},{{"role":"user","content":"two"}}"#);
        let (begun, later) = (of(&chat("s", FIRST)), of(&chat("s", &more)));
        assert_eq!(begun.conversation, later.conversation);
        assert!(begun.bytes < later.bytes);
        let other = of(&chat("s", &FIRST.replace("one", "1")));
        assert_ne!(begun.conversation, other.conversation);
        assert_eq!((begun.head, begun.head_bytes), (other.head, 1));
        assert_ne!(begun.head, of(&chat("t", FIRST)).head);
        let tools =
            chat("s", FIRST).replace(r#""model""#, r#""tools":[{"type":"function","function":{"name":"f"}}],"model""#);
        assert_ne!(begun.head, of(&tools).head);
    }

    #[test]
    fn without_instructions_nothing_is_common() {
        let bare = of(r#"{"model":"m","messages":[{"role":"user","content":"one"}]}"#);
        assert_eq!((bare.head, bare.head_bytes, bare.bytes), (0, 0, 3));
    }

    #[test]
    fn what_takes_several_places_has_none_of_its_own() {
        let several = r#"{"model":"m","n":2,"messages":[{"role":"user","content":"one"}]}"#;
        assert_eq!(Route::OpenaiChat.parse(several.as_bytes()).unwrap().seating(), None);
    }
}
