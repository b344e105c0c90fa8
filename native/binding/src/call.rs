use crate::{
    buffer::with_bytes,
    errors::{self, FaultTuple, fault_tuple},
    exchange::phase,
};
use blazar_core::{call, http1};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};

/// A plain HTTP/1.1 request to an engine, its answer kept whole up to `limit` bytes.
#[pyclass(module = "blazar._native")]
pub struct Call {
    inner: call::Call,
    request: Py<PyBytes>,
}

#[pymethods]
impl Call {
    #[new]
    #[pyo3(signature = (method, path, body, *, host, secret, limit))]
    fn new(
        py: Python<'_>,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        host: &str,
        secret: &str,
        limit: usize,
    ) -> PyResult<Self> {
        let request = http1::Request { method, path, host, secret, body, accept: "*/*" };
        let (bytes, inner) =
            call::Call::new(&request, limit).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { inner, request: PyBytes::new(py, &bytes).unbind() })
    }

    #[getter]
    fn request(&self, py: Python<'_>) -> Py<PyBytes> {
        self.request.clone_ref(py)
    }

    #[getter]
    fn phase(&self) -> u8 {
        phase(self.inner.phase())
    }

    #[getter]
    fn reusable(&self) -> bool {
        self.inner.is_reusable()
    }

    #[getter]
    fn ends_at_close(&self) -> bool {
        self.inner.ends_at_close()
    }

    #[getter]
    fn fault(&self) -> Option<FaultTuple> {
        self.inner.fault().map(fault_tuple)
    }

    #[getter]
    fn status(&self) -> u16 {
        self.inner.status()
    }

    #[getter]
    fn content_type(&self) -> &str {
        self.inner.content_type()
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.inner.body())
    }

    fn feed<'py>(&mut self, py: Python<'py>, data: &Bound<'py, PyAny>, now_ns: u64) -> PyResult<Bound<'py, PyBytes>> {
        // The face of an exchange, so that a relay treats both alike; a call has no use for the time.
        let _ = now_ns;
        with_bytes(data, |bytes| self.inner.feed(bytes))?;
        Ok(PyBytes::new(py, b""))
    }

    fn eof<'py>(&mut self, py: Python<'py>, now_ns: u64) -> Bound<'py, PyBytes> {
        let _ = now_ns;
        self.inner.eof();
        PyBytes::new(py, b"")
    }

    fn fail<'py>(
        &mut self,
        py: Python<'py>,
        kind: &str,
        code: String,
        message: String,
        now_ns: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let _ = now_ns;
        self.inner.fail(errors::fault(kind, code, message)?);
        Ok(PyBytes::new(py, b""))
    }
}
