//! The client side of HTTP/1.1 without I/O: a writer of requests and a reader of one response.
//!
//! The reader is strict where leniency lets two readers disagree about where an answer ends: both `transfer-encoding`
//! and `content-length`, lengths that differ or are not plain digits, encodings other than `chunked`, and chunk lines
//! without CRLF are refused.
mod chunked;
mod head;
mod request;
mod response;

pub use head::Head;
pub use request::{BadToken, Request};
pub use response::{Part, Reader};

/// What is wrong with a response. None of these leaves a connection that can be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not an HTTP/1 response head.
    #[error("the answer does not begin with a valid HTTP/1.1 head")]
    BadHead,
    /// More bytes or fields than a head may have.
    #[error("the head of the answer is longer than 64 KiB or has more than 100 fields")]
    HeadTooLong,
    /// Readers could disagree about the body's length.
    #[error("the answer does not say clearly how long its body is")]
    BadLength,
    /// A chunk's size line or end is wrong.
    #[error("a chunk of the answer is malformed")]
    BadChunk,
    /// The connection ended too early.
    #[error("the connection ended before the answer was complete")]
    Cut,
}
