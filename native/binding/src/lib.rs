//! `blazar._native`: the Python face of `blazar-core`. It converts, drops the GIL for long work and maps errors.
use pyo3::prelude::*;

mod gguf;

#[pymodule]
mod _native {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use super::gguf::{GgufError, PyGguf, gguf_parts};
}
