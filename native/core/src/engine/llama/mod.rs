//! llama.cpp's own server, and whatever speaks like it.
mod calls;
mod counts;
pub mod decode;
pub mod encode;
mod messages;
pub mod pictures;
mod refusal;
mod sampled;
pub mod schema;
mod wire;

use super::Decode;
use crate::chat::Request;

/// A reader of the answer to `request`.
pub fn decoder(request: &Request) -> Box<dyn Decode> {
    Box::new(decode::Decoder::new(request))
}
