//! The client APIs: each reads its requests into the waist and writes the waist's events.
//!
//! A dialect's folder holds `request.rs` (body to [`Request`]), `response.rs` (events to one body) and `stream.rs` (events to
//! a stream). No dialect knows another, and none knows an engine.
pub mod anthropic;
pub mod ollama;
pub mod openai;
pub mod responses;

mod common;
mod duration;
mod gather;
mod history;
mod json;
mod media;
mod read;
mod time;
mod write;

use crate::chat::{Event, Fault, Part, Prompt, Request};

/// A fault in a request's body, with the JSON path where it lies (`messages[2].content`; empty for the whole body).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadBody {
    /// One sentence that says what is wrong and what would be right.
    pub message: String,
    /// Where.
    pub path: String,
}

/// The routes that carry text requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `/v1/chat/completions`.
    OpenaiChat,
    /// `/v1/completions`.
    OpenaiText,
    /// `/v1/responses`.
    OpenaiResponses,
    /// `/api/chat`.
    OllamaChat,
    /// `/api/generate`.
    OllamaGenerate,
    /// `/v1/messages`.
    AnthropicMessages,
    /// `/v1/messages/count_tokens`.
    AnthropicCount,
}

/// Put an earlier conversation, a JSON array of a response's items, before what `request` says.
pub fn precede(request: &mut Request, earlier: &[u8]) -> Result<(), BadBody> {
    responses::request::precede(request, earlier)
}

/// The addresses of images that lie elsewhere, in their order.
pub fn links(request: &Request) -> Vec<&str> {
    let Prompt::Chat(turns) = &request.prompt else { return Vec::new() };
    let parts = turns.iter().flat_map(|turn| &turn.parts);
    parts.filter_map(|part| if let Part::Link(url) = part { Some(url.as_str()) } else { None }).collect()
}

/// Put the images (base64) in the places of their links, in the same order.
pub fn supply(request: &mut Request, images: &[String]) -> Result<(), BadBody> {
    let Prompt::Chat(turns) = &mut request.prompt else { return Ok(()) };
    let mut images = images.iter();
    for part in turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        if matches!(part, Part::Link(_))
            && let Some(image) = images.next()
        {
            *part = media::sniffed(image)?;
        }
    }
    Ok(())
}

/// Put on `request` what a model's Modelfile sets, as JSON: `system`, `parameters`, `messages`. What the client says
/// counts more.
pub fn dress(request: &mut Request, overlay: &[u8]) -> Result<(), BadBody> {
    ollama::overlay::dress(request, overlay)
}

/// Whether a template in Ollama's language can be read.
pub fn check_template(template: &str) -> Result<(), BadBody> {
    ollama::template::check(template).map_err(|broken| unusable(&broken))
}

fn unusable(broken: &ollama::template::Broken) -> BadBody {
    BadBody { message: format!("The template cannot be used: {}.", broken.0), path: "template".into() }
}

/// Have the request's own template, if it has one, make text of its conversation. `now_ns` is civil time.
pub fn render(request: &mut Request, now_ns: u64) -> Result<(), BadBody> {
    let (Some(template), Prompt::Chat(turns)) = (&request.template, &request.prompt) else { return Ok(()) };
    let prompt =
        ollama::template::render(template, request, turns, &time::date(now_ns)).map_err(|broken| unusable(&broken))?;
    request.prompt = Prompt::Text { prompt, suffix: None, echo: false };
    Ok(())
}

impl Route {
    /// From its stable name (`openai.chat`, `openai.text`, `openai.responses`, `ollama.chat`, `ollama.generate`, `anthropic.messages`,
    /// `anthropic.count`).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "openai.chat" => Self::OpenaiChat,
            "openai.text" => Self::OpenaiText,
            "openai.responses" => Self::OpenaiResponses,
            "ollama.chat" => Self::OllamaChat,
            "ollama.generate" => Self::OllamaGenerate,
            "anthropic.messages" => Self::AnthropicMessages,
            "anthropic.count" => Self::AnthropicCount,
            _ => return None,
        })
    }

    /// Read a body.
    pub fn parse(self, body: &[u8]) -> Result<Request, BadBody> {
        match self {
            Self::OpenaiChat => openai::request::chat(body),
            Self::OpenaiText => openai::request::text(body),
            Self::OpenaiResponses => responses::request::response(body),
            Self::OllamaChat => ollama::request::chat(body),
            Self::OllamaGenerate => ollama::request::generate(body),
            Self::AnthropicMessages => anthropic::request::messages(body),
            Self::AnthropicCount => anthropic::request::count(body),
        }
    }

    /// The writer of this request's answer: a stream's or a single body's, as `request.stream` says.
    pub fn encoder(self, request: &Request, stamp: Stamp) -> Box<dyn Encode> {
        match self {
            Self::OpenaiChat | Self::OpenaiText => openai::encoder(self, request, stamp),
            Self::OpenaiResponses => responses::encoder(request, stamp),
            Self::OllamaChat | Self::OllamaGenerate => ollama::encoder(self, request, stamp),
            Self::AnthropicMessages | Self::AnthropicCount => anthropic::encoder(request, stamp),
        }
    }
}

/// What an answer carries that no engine says. Core reads no clock: the caller tells it the time.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// Random lower-case hex (at least 24 digits), from which each dialect makes its ids.
    pub id: String,
    /// Civil time when the request came, nanoseconds since the Unix epoch.
    pub created_ns: u64,
    /// Monotonic time when the request came; later `now_ns` are on this clock.
    pub started_ns: u64,
    /// How long this request waited for its model to load, nanoseconds.
    pub load_ns: u64,
}

/// Writes a client's bytes. Never fails and never blocks; `now_ns` is monotonic.
pub trait Encode: Send + Sync {
    /// `content-type` of the answer.
    fn content_type(&self) -> &'static str;

    /// Append what `event` means to the client. A body encoder appends everything at [`Event::End`], or nothing
    /// if the answer is [`broken`](Self::broken). A stream encoder
    /// writes whole frames only.
    fn event(&mut self, event: &Event<'_>, now_ns: u64, out: &mut Vec<u8>);

    /// Append the dialect's in-stream error event; nothing follows it. A body encoder appends nothing: the caller answers
    /// with a status instead.
    fn fault(&mut self, fault: &Fault, now_ns: u64, out: &mut Vec<u8>);

    /// Append something that keeps an idle stream open (comment, ping); nothing where the dialect allows nothing.
    fn keep_alive(&mut self, now_ns: u64, out: &mut Vec<u8>);

    /// After [`Event::End`]: why the answer could not be written in this dialect (Ollama's needs arguments that are JSON).
    /// Before the client has a byte, the caller answers with
    /// this instead; in a stream the client has been told.
    fn broken(&self) -> Option<&Fault> {
        None
    }

    /// The finished answer as an object to keep, where the client asked for that; else nothing.
    fn document(&self) -> &[u8] {
        &[]
    }
}
