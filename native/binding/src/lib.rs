//! `blazar._native`: the Python face of `blazar-core`. It converts, drops the GIL for long work and maps errors.
use pyo3::prelude::*;

mod admission;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::admission::Queue;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
