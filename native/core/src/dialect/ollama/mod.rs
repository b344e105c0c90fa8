//! Ollama's dialect: `/api/chat` and `/api/generate`.
mod context;
pub(crate) mod overlay;
pub(crate) mod request;
mod response;
mod stream;
pub(crate) mod template;
mod words;

use super::{Encode, Route, Stamp};
use crate::chat::Request;

/// The writer of the answer to `request`.
pub fn encoder(route: Route, request: &Request, stamp: Stamp) -> Box<dyn Encode> {
    if request.stream {
        Box::new(stream::Stream::new(route, request, stamp))
    } else {
        Box::new(response::Body::new(route, request, stamp))
    }
}
