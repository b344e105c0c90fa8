//! Bytes that come from Python without being copied.
use pyo3::{buffer::PyBuffer, exceptions::PyBufferError, prelude::*, types::PyBytes};

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
