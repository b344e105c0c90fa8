//! `blazar._native`: the Python face of `blazar-core`. It converts, drops the GIL for long work and maps errors.
use pyo3::prelude::*;

mod admission;
mod errors;
mod exchange;
mod gguf;
mod inbound;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::admission::Queue;
    #[pymodule_export]
    use crate::errors::BadInput;
    #[pymodule_export]
    use crate::exchange::{Call, Exchange};
    #[pymodule_export]
    use crate::gguf::{GgufError, PyGguf, gguf_parts};
    #[pymodule_export]
    use crate::inbound::{Inbound, count_request, parse};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const PHASE_HEAD: u8 = crate::exchange::PHASE_HEAD;
    #[pymodule_export]
    const PHASE_BODY: u8 = crate::exchange::PHASE_BODY;
    #[pymodule_export]
    const PHASE_DONE: u8 = crate::exchange::PHASE_DONE;
    #[pymodule_export]
    const PHASE_FAILED: u8 = crate::exchange::PHASE_FAILED;
}
