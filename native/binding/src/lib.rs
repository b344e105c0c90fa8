//! `blazar._native`: the Python face of `blazar-core`. It converts, drops the GIL for long work and maps errors.
use pyo3::prelude::*;

mod admission;
mod buffer;
mod call;
mod errors;
mod exchange;
mod gguf;
mod inbound;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::admission::{Budget, Queue};
    #[pymodule_export]
    use crate::call::Call;
    #[pymodule_export]
    use crate::errors::BadInput;
    #[pymodule_export]
    use crate::exchange::Exchange;
    #[pymodule_export]
    use crate::gguf::{GgufError, PyGguf, gguf_parts};
    #[pymodule_export]
    use crate::inbound::{Inbound, Prelude, check_template, count_request, parse};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const PHASE_HEAD: u8 = 0;
    #[pymodule_export]
    const PHASE_BODY: u8 = 1;
    #[pymodule_export]
    const PHASE_DONE: u8 = 2;
    #[pymodule_export]
    const PHASE_FAILED: u8 = 3;
}
