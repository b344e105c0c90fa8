//! One item of a response's output, and how it is shown.
use super::words;
use crate::chat::TokenLogprob;
use crate::dialect::write::string;

/// The item that is being written.
pub(super) struct Item {
    pub id: String,
    pub kind: Kind,
    pub text: String,
    pub logprobs: Vec<TokenLogprob>,
    /// Text that waits for its log probabilities.
    pub held: String,
}

#[derive(PartialEq, Eq)]
pub(super) enum Kind {
    Reasoning,
    Message,
    Call { number: u32, call: String, name: String, custom: bool, ended: bool },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    InProgress,
    Completed,
    Incomplete,
}

impl Status {
    pub const fn word(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// How a client wants reasoning shown.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    pub summary: bool,
    pub encrypted: bool,
}

impl Shown {
    /// The one part of a message or of reasoning.
    pub fn content(self, item: &Item, out: &mut Vec<u8>) {
        out.extend_from_slice(match item.kind {
            Kind::Reasoning if self.summary => b"{\"type\":\"summary_text\",\"text\":" as &[u8],
            Kind::Reasoning => b"{\"type\":\"reasoning_text\",\"text\":",
            _ => b"{\"type\":\"output_text\",\"text\":",
        });
        string(&item.text, out);
        if item.kind == Kind::Message {
            out.extend_from_slice(b",\"annotations\":[],\"logprobs\":");
            words::logprobs(&item.logprobs, out);
        }
        out.push(b'}');
    }

    pub fn item(self, item: &Item, status: Status, out: &mut Vec<u8>) {
        let begun = status != Status::InProgress;
        out.extend_from_slice(b"{\"id\":");
        string(&item.id, out);
        match &item.kind {
            Kind::Message => {
                out.extend_from_slice(b",\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
                if begun {
                    self.content(item, out);
                }
                out.push(b']');
            }
            Kind::Reasoning => {
                out.extend_from_slice(b",\"type\":\"reasoning\",\"summary\":[");
                if begun && self.summary {
                    self.content(item, out);
                }
                out.extend_from_slice(b"],\"content\":[");
                if begun && !self.summary {
                    self.content(item, out);
                }
                out.push(b']');
                if self.encrypted {
                    out.extend_from_slice(b",\"encrypted_content\":");
                    string(&words::sealed(&item.text), out);
                }
            }
            Kind::Call { call, name, custom, .. } => {
                out.extend_from_slice(if *custom {
                    b",\"type\":\"custom_tool_call\",\"call_id\":" as &[u8]
                } else {
                    b",\"type\":\"function_call\",\"call_id\":"
                });
                string(call, out);
                out.extend_from_slice(b",\"name\":");
                string(name, out);
                out.extend_from_slice(if *custom { b",\"input\":" as &[u8] } else { b",\"arguments\":" });
                string(if begun { &item.text } else { "" }, out);
            }
        }
        out.extend_from_slice(b",\"status\":\"");
        out.extend_from_slice(status.word().as_bytes());
        out.extend_from_slice(b"\"}");
    }
}
