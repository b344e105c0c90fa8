//! llama.cpp's server (`llama-server`, and the same code inside `xllamacpp`): its OpenAI-like routes with its extensions.
mod decode;
pub mod encode;
mod wire;

use crate::chat::Request;
use crate::engine::Decode;

/// A reader of the answer to `request`.
pub fn decoder(request: &Request) -> Box<dyn Decode> {
    Box::new(decode::Decoder::new(request))
}
