//! `blazar._native.Exchange` and `blazar._native.Call`.
use blazar_core::call::Call as CoreCall;
use blazar_core::chat::Finish;
use blazar_core::dialect::Stamp;
use blazar_core::exchange::{Exchange as Core, Phase};
use blazar_core::http1::request_head;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{FaultTuple, fault_error, fault_of, fault_tuple};
use crate::inbound::{Inbound, known_family};

pub const PHASE_HEAD: u8 = 0;
pub const PHASE_BODY: u8 = 1;
pub const PHASE_DONE: u8 = 2;
pub const PHASE_FAILED: u8 = 3;

const fn number(phase: Phase) -> u8 {
    match phase {
        Phase::Head => PHASE_HEAD,
        Phase::Body => PHASE_BODY,
        Phase::Done => PHASE_DONE,
        Phase::Failed => PHASE_FAILED,
    }
}

/// One request's way to an engine and back.
#[pyclass(module = "blazar._native")]
pub struct Exchange {
    core: Core,
    request: Py<PyBytes>,
    out: Vec<u8>,
}

#[pymethods]
impl Exchange {
    #[new]
    #[pyo3(signature = (inbound, *, family, alias, host, secret, id, created_ns, started_ns, load_ns))]
    #[expect(clippy::too_many_arguments, reason = "each is named at the call")]
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
        let family = known_family(family)?;
        let outbound = family.encode(&inbound.request, alias).map_err(|fault| fault_error(&fault))?;
        let mut request = Vec::with_capacity(outbound.body.len() + 256);
        let length = Some(outbound.body.len());
        request_head("POST", outbound.path, host, secret, "text/event-stream", length, &mut request);
        request.extend_from_slice(&outbound.body);
        let stamp = Stamp { id, created_ns, started_ns, load_ns };
        let encoder = inbound.route.encoder(&inbound.request, stamp);
        let core = Core::new(family.decoder(&inbound.request), encoder);
        Ok(Self { core, request: PyBytes::new(py, &request).unbind(), out: Vec::new() })
    }

    #[getter]
    fn request(&self, py: Python<'_>) -> Py<PyBytes> {
        self.request.clone_ref(py)
    }

    #[getter]
    fn content_type(&self) -> &'static str {
        self.core.content_type()
    }

    #[getter]
    fn phase(&self) -> u8 {
        number(self.core.phase())
    }

    #[getter]
    fn reusable(&self) -> bool {
        self.core.reusable()
    }

    #[getter]
    fn ends_at_close(&self) -> bool {
        self.core.ends_at_close()
    }

    #[getter]
    fn started(&self) -> bool {
        self.core.started()
    }

    #[getter]
    fn fault(&self) -> Option<FaultTuple> {
        self.core.fault().map(fault_tuple)
    }

    #[getter]
    fn usage(&self) -> Option<(u64, u64, u64)> {
        self.core.usage().map(|usage| (usage.prompt, usage.cached, usage.completion))
    }

    #[getter]
    fn finish(&self) -> Option<&'static str> {
        self.core.finish().map(|finish| match finish {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ToolCalls => "tool_calls",
            Finish::ContentFilter => "content_filter",
        })
    }

    #[getter]
    fn first_ns(&self) -> Option<u64> {
        self.core.first_ns()
    }

    fn feed<'py>(&mut self, py: Python<'py>, data: &[u8], now_ns: u64) -> Bound<'py, PyBytes> {
        self.core.feed(data, now_ns, &mut self.out);
        self.take(py)
    }

    fn eof<'py>(&mut self, py: Python<'py>, now_ns: u64) -> Bound<'py, PyBytes> {
        self.core.eof(now_ns, &mut self.out);
        self.take(py)
    }

    fn fail<'py>(
        &mut self,
        py: Python<'py>,
        kind: &str,
        code: &str,
        message: String,
        now_ns: u64,
    ) -> Bound<'py, PyBytes> {
        self.core.fail(fault_of(kind, code, message), now_ns, &mut self.out);
        self.take(py)
    }

    fn keep_alive<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.core.keep_alive(&mut self.out);
        self.take(py)
    }
}

impl Exchange {
    /// The client's bytes; the buffer stays for the next time, unless it grew out of measure.
    fn take<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        const KEPT: usize = 16 * 1024;
        let bytes = PyBytes::new(py, &self.out);
        self.out.clear();
        self.out.shrink_to(KEPT);
        bytes
    }
}

/// A plain request to an engine, its answer kept whole.
#[pyclass(module = "blazar._native")]
pub struct Call {
    core: CoreCall,
    request: Py<PyBytes>,
}

#[pymethods]
#[expect(unused_variables, reason = "the relay calls both kinds of answer alike")]
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
    ) -> Self {
        let mut request = Vec::new();
        request_head(method, path, host, secret, "application/json", body.map(<[u8]>::len), &mut request);
        request.extend_from_slice(body.unwrap_or_default());
        Self { core: CoreCall::new(limit), request: PyBytes::new(py, &request).unbind() }
    }

    #[getter]
    fn request(&self, py: Python<'_>) -> Py<PyBytes> {
        self.request.clone_ref(py)
    }

    #[getter]
    fn phase(&self) -> u8 {
        number(self.core.phase())
    }

    #[getter]
    fn reusable(&self) -> bool {
        self.core.reusable()
    }

    #[getter]
    fn ends_at_close(&self) -> bool {
        self.core.ends_at_close()
    }

    #[getter]
    fn fault(&self) -> Option<FaultTuple> {
        self.core.fault().map(fault_tuple)
    }

    #[getter]
    fn status(&self) -> u16 {
        self.core.head().map_or(0, |head| head.status)
    }

    #[getter]
    fn content_type(&self) -> &str {
        self.core.head().map_or("", |head| &head.content_type)
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.core.body())
    }

    fn feed<'py>(&mut self, py: Python<'py>, data: &[u8], now_ns: u64) -> Bound<'py, PyBytes> {
        self.core.feed(data);
        PyBytes::new(py, b"")
    }

    fn eof<'py>(&mut self, py: Python<'py>, now_ns: u64) -> Bound<'py, PyBytes> {
        self.core.eof();
        PyBytes::new(py, b"")
    }

    fn fail<'py>(
        &mut self,
        py: Python<'py>,
        kind: &str,
        code: &str,
        message: String,
        now_ns: u64,
    ) -> Bound<'py, PyBytes> {
        self.core.fail(fault_of(kind, code, message));
        PyBytes::new(py, b"")
    }
}
