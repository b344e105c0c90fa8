//! OpenAI's Responses: `/v1/responses`.
mod input;
mod item;
pub(crate) mod request;
mod response;
mod stream;
mod tools;
mod words;

use super::{Encode, Stamp};
use crate::chat::Request;

/// The writer of the answer to `request`.
pub fn encoder(request: &Request, stamp: Stamp) -> Box<dyn Encode> {
    let stream = stream::Stream::new(request, stamp);
    if request.stream { Box::new(stream) } else { Box::new(response::Body::new(stream)) }
}
