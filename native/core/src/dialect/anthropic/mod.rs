//! Anthropic's dialect: `/v1/messages` and `/v1/messages/count_tokens`.
mod messages;
pub(crate) mod request;
mod response;
mod stream;
mod words;

use super::{Encode, Stamp};
use crate::chat::Request;

/// The writer of the answer to `request`.
pub fn encoder(request: &Request, stamp: Stamp) -> Box<dyn Encode> {
    if request.stream {
        Box::new(stream::Stream::new(request, stamp))
    } else {
        Box::new(response::Body::new(request, stamp))
    }
}
