//! Blazar's hot path: pure state machines and parsers, without Python, sockets or clock reads.
#![forbid(unsafe_code)]
pub mod gguf;
