//! Blazar's hot path: pure state machines and parsers, without Python, sockets or clock reads.
#![forbid(unsafe_code)]

pub mod admission;
pub mod call;
pub mod chat;
pub mod dialect;
pub mod engine;
pub mod exchange;
pub mod gguf;
pub mod http1;
pub mod sse;
