//! `blazar._native.Queue`.
use blazar_core::admission::{Class, Entry, Lane, Queue as Core};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The waiting list of one instance.
#[pyclass(module = "blazar._native")]
pub struct Queue {
    core: Core,
}

#[pymethods]
impl Queue {
    #[new]
    fn new(places: usize, bound: usize) -> Self {
        Self { core: Core::new(places, bound) }
    }

    /// `(ticket, granted)`; `None`: the list is full.
    #[pyo3(signature = (now_ns, priority, lane, deadline_ns=None))]
    fn enter(
        &mut self,
        now_ns: u64,
        priority: u8,
        lane: u8,
        deadline_ns: Option<u64>,
    ) -> PyResult<Option<(u64, bool)>> {
        let (Some(class), Some(lane)) = (Class::from_number(priority), Lane::from_number(lane)) else {
            return Err(PyValueError::new_err("priority and lane are 0, 1 or 2"));
        };
        Ok(match self.core.enter(now_ns, class, lane, deadline_ns) {
            Entry::Granted(ticket) => Some((ticket, true)),
            Entry::Waiting(ticket) => Some((ticket, false)),
            Entry::Full => None,
        })
    }

    fn leave(&mut self, ticket: u64) -> Option<u64> {
        self.core.leave(ticket)
    }

    fn position(&self, ticket: u64) -> Option<usize> {
        self.core.position(ticket)
    }

    fn resize(&mut self, places: usize) -> Vec<u64> {
        self.core.resize(places)
    }

    #[getter]
    fn running(&self) -> usize {
        self.core.running()
    }

    #[getter]
    fn waiting(&self) -> usize {
        self.core.waiting()
    }
}
