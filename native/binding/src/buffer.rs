//! Bytes that come from Python without being copied.
use std::ffi::{c_int, c_void};

use pyo3::{
    buffer::PyBuffer,
    exceptions::PyBufferError,
    ffi,
    prelude::*,
    types::{PyBytes, PyMemoryView},
};

/// Run `work` on the content of a bytes-like object.
#[expect(unsafe_code, reason = "a view of a Python buffer, held for one call")]
pub fn with_bytes<R>(data: &Bound<'_, PyAny>, work: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(work(bytes.as_bytes()));
    }
    let buffer = PyBuffer::<u8>::get(data)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the buffer is not contiguous"));
    }
    if buffer.len_bytes() == 0 {
        return Ok(work(&[]));
    }
    // SAFETY: the buffer is contiguous, its length is not zero, and the export keeps its memory in place until `buffer`
    // is dropped. Nobody writes to it meanwhile: `work` is pure Rust that keeps the GIL, and no other thread runs
    // Python then.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()) };
    Ok(work(bytes))
}

/// Bytes of Rust's that Python reads where they are.
#[pyclass(frozen, module = "blazar._native")]
pub struct Outgoing(Vec<u8>);

impl Outgoing {
    /// Requests of more bytes than this are not copied to be sent.
    const LARGE: usize = 64 * 1024;

    /// `bytes` as something that a socket takes: `bytes`, or a `memoryview` where there are many.
    pub fn give(py: Python<'_>, bytes: Vec<u8>) -> PyResult<Py<PyAny>> {
        if bytes.len() <= Self::LARGE {
            return Ok(PyBytes::new(py, &bytes).into_any().unbind());
        }
        let owner = Bound::new(py, Self(bytes))?;
        Ok(PyMemoryView::from(owner.as_any())?.into_any().unbind())
    }
}

#[pymethods]
impl Outgoing {
    #[expect(unsafe_code, reason = "the buffer protocol")]
    #[expect(clippy::needless_pass_by_value, reason = "as PyO3 calls it")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = &slf.get().0;
        let length =
            ffi::Py_ssize_t::try_from(bytes.len()).map_err(|error| PyBufferError::new_err(error.to_string()))?;
        // SAFETY: the vector is never changed (the class is frozen), `view` keeps a reference to its owner, and the
        // view is read-only, as the last but one argument says.
        let result =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), bytes.as_ptr() as *mut c_void, length, 1, flags) };
        if result == -1 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }
}
