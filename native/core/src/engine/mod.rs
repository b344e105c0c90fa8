//! What a child speaks: one folder per family, with `encode.rs` (the waist's request to the engine's body) and `decode.rs`
//! (the engine's stream to the waist's events). No engine knows a dialect.
pub mod llama;
mod spoken;
mod thoughts;

use crate::chat::{Event, Fault, Request};

/// An engine's request: its path and its JSON body. Engines are always asked to stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbound {
    /// As in `/v1/chat/completions`.
    pub path: &'static str,
    /// JSON.
    pub body: Vec<u8>,
}

/// The families of wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// llama.cpp's server.
    Llama,
}

impl Family {
    /// From its stable name.
    pub fn from_name(name: &str) -> Option<Self> {
        (name == "llama").then_some(Self::Llama)
    }

    /// The engine's body for `request`; `alias` is the model's name inside the engine.
    pub fn encode(self, request: &Request, alias: &str) -> Result<Outbound, Fault> {
        match self {
            Self::Llama => llama::encode::generate(request, alias),
        }
    }

    /// The engine's body that counts the prompt's tokens.
    pub fn count(self, request: &Request, alias: &str) -> Result<Outbound, Fault> {
        match self {
            Self::Llama => llama::encode::count(request, alias),
        }
    }

    /// What of a JSON Schema the engine cannot hold an answer to.
    pub fn unexpressed(self, schema: &str) -> Vec<llama::schema::Unexpressed> {
        match self {
            Self::Llama => llama::schema::unexpressed(schema),
        }
    }

    /// Whether `request` has a picture that the engine cannot decode and [`Family::convert`] can.
    pub fn foreign(self, request: &Request) -> bool {
        match self {
            Self::Llama => llama::pictures::foreign(request),
        }
    }

    /// Make such pictures what the engine can decode. The error is a sentence for the client.
    pub fn convert(self, request: &mut Request) -> Result<(), String> {
        match self {
            Self::Llama => llama::pictures::convert(request),
        }
    }

    /// Whether the engine closes its connection after a streamed answer though it announces that it stays open. Then there
    /// is no reason to wait for the end of the framing.
    pub const fn closes_after_stream(self) -> bool {
        match self {
            Self::Llama => true,
        }
    }

    /// A reader of the answer to `request`.
    pub fn decoder(self, request: &Request) -> Box<dyn Decode> {
        match self {
            Self::Llama => llama::decoder(request),
        }
    }
}

/// Reads one engine's answer. Payloads are whole: the event-stream framing is done before.
pub trait Decode: Send + Sync {
    /// The payload of one `data:` field (several lines already joined); `sink` gets what it means.
    fn data(&mut self, payload: &[u8], sink: &mut dyn FnMut(&Event<'_>)) -> Result<(), Fault>;

    /// The stream ended; closes what is open, or says what is missing.
    fn end(&mut self, sink: &mut dyn FnMut(&Event<'_>)) -> Result<(), Fault>;

    /// An answer with a status other than 200.
    fn refusal(&mut self, status: u16, body: &[u8]) -> Fault;

    /// Whether [`Event::End`] was given.
    fn done(&self) -> bool;
}
