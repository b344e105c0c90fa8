use crate::{
    buffer::{Outgoing, with_bytes},
    errors::{self, FaultTuple, bad_request, fault_tuple},
    inbound::{Inbound, family},
};
use blazar_core::{
    chat::{Fault, Finish},
    dialect::Stamp,
    exchange,
};
use pyo3::{prelude::*, types::PyBytes};

/// An output buffer larger than this is given back after use.
const KEPT: usize = 256 * 1024;

/// One request's way to an engine and back, without I/O.
#[pyclass(module = "blazar._native")]
pub struct Exchange {
    inner: exchange::Exchange,
    request: Py<PyAny>,
    out: Vec<u8>,
}

#[pymethods]
impl Exchange {
    #[new]
    #[pyo3(signature = (inbound, *, family, alias, host, secret, id, created_ns, started_ns, load_ns))]
    #[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
    fn new(
        py: Python<'_>,
        inbound: &Inbound,
        family: &str,
        alias: &str,
        host: &str,
        secret: &str,
        id: String,
        created_ns: u64,
        started_ns: u64,
        load_ns: u64,
    ) -> PyResult<Self> {
        let encoder = inbound.route.encoder(&inbound.request, Stamp { id, created_ns, started_ns, load_ns });
        let (request, inner) =
            exchange::Exchange::new(&inbound.request, self::family(family)?, alias, host, secret, encoder)
                .map_err(bad_request)?;
        Ok(Self { inner, request: Outgoing::give(py, request)?, out: Vec::new() })
    }

    #[getter]
    fn request(&self, py: Python<'_>) -> Py<PyAny> {
        self.request.clone_ref(py)
    }

    #[getter]
    fn content_type(&self) -> &'static str {
        self.inner.content_type()
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
    fn started(&self) -> bool {
        self.inner.started()
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
    fn usage(&self) -> Option<(u64, u64, u64)> {
        self.inner.usage().map(|usage| (usage.prompt, usage.cached, usage.completion))
    }

    #[getter]
    fn pieces(&self) -> u64 {
        self.inner.pieces()
    }

    #[getter]
    fn finish(&self) -> Option<&'static str> {
        self.inner.finish().map(|finish| match finish {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ToolCalls => "tool_calls",
            Finish::ContentFilter => "content_filter",
        })
    }

    #[getter]
    fn first_ns(&self) -> Option<u64> {
        self.inner.first_ns()
    }

    fn feed<'py>(&mut self, py: Python<'py>, data: &Bound<'py, PyAny>, now_ns: u64) -> PyResult<Bound<'py, PyBytes>> {
        let (inner, out) = (&mut self.inner, &mut self.out);
        with_bytes(data, |bytes| inner.feed(bytes, now_ns, out))?;
        Ok(self.taken(py))
    }

    fn eof<'py>(&mut self, py: Python<'py>, now_ns: u64) -> Bound<'py, PyBytes> {
        self.inner.eof(now_ns, &mut self.out);
        self.taken(py)
    }

    fn fail<'py>(
        &mut self,
        py: Python<'py>,
        kind: &str,
        code: String,
        message: String,
        now_ns: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let fault: Fault = errors::fault(kind, code, message)?;
        self.inner.fail(fault, now_ns, &mut self.out);
        Ok(self.taken(py))
    }

    fn keep_alive<'py>(&mut self, py: Python<'py>, now_ns: u64) -> Bound<'py, PyBytes> {
        self.inner.keep_alive(now_ns, &mut self.out);
        self.taken(py)
    }

    #[getter]
    fn document<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.inner.document())
    }

    #[getter]
    fn calls(&self) -> Vec<(&str, &str)> {
        self.inner.calls().iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect()
    }

    #[getter]
    fn texts(&self) -> Vec<String> {
        self.inner.texts().to_vec()
    }
}

impl Exchange {
    /// What was written, as bytes; nothing is the one empty bytes object.
    fn taken<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = PyBytes::new(py, &self.out);
        if self.out.capacity() > KEPT {
            self.out = Vec::new();
        }
        self.out.clear();
        bytes
    }
}

/// The number of a phase on the Python side.
pub fn phase(phase: exchange::Phase) -> u8 {
    match phase {
        exchange::Phase::Head => 0,
        exchange::Phase::Body => 1,
        exchange::Phase::Done => 2,
        exchange::Phase::Failed => 3,
    }
}
