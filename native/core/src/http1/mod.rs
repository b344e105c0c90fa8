//! The client side of HTTP/1.1 (RFC 9112) without I/O: a request as bytes, a response read piece by piece.
mod read;

pub use read::{Broken, Head, Reader, Step};

/// A request's head. The body is written after it, exactly `length` bytes; requests without a body give `None`.
pub fn request_head(
    method: &str,
    path: &str,
    host: &str,
    secret: &str,
    accept: &str,
    length: Option<usize>,
    out: &mut Vec<u8>,
) {
    let mut put = |parts: &[&str]| parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
    put(&[method, " ", path, " HTTP/1.1\r\nHost: ", host, "\r\nAccept: ", accept, "\r\n"]);
    if !secret.is_empty() {
        put(&["Authorization: Bearer ", secret, "\r\n"]);
    }
    if let Some(length) = length {
        let mut digits = itoa::Buffer::new();
        put(&["Content-Type: application/json\r\nContent-Length: ", digits.format(length), "\r\n"]);
    }
    put(&["\r\n"]);
}
