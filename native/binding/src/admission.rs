//! `blazar._native.Queue`.
use blazar_core::admission::{Class, Entry, Queue as Core};
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

    /// `(ticket, position)`: position -1 has a place, 0 is next; `None`: the list is full.
    #[pyo3(signature = (now_ns, priority, deadline_ns=None))]
    fn enter(&mut self, now_ns: u64, priority: u8, deadline_ns: Option<u64>) -> PyResult<Option<(u64, isize)>> {
        let class = Class::from_number(priority).ok_or_else(|| PyValueError::new_err("priority is 0, 1 or 2"))?;
        Ok(match self.core.enter(now_ns, class, deadline_ns) {
            Entry::Granted(ticket) => Some((ticket, -1)),
            Entry::Waiting(ticket, before) => Some((ticket, isize::try_from(before).unwrap_or(isize::MAX))),
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
