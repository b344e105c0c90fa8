//! `blazar._native.Queue` and `blazar._native.Budget`.
use blazar_core::admission::{Budget as CoreBudget, Class, Entry, Lane, Limits, Queue as Core, Refusal, Share};
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
    #[pyo3(signature = (now_ns, priority, lane, deadline_ns=None, key=0, weight=1, cost=1))]
    #[expect(clippy::too_many_arguments, reason = "flat is what crosses the boundary fastest")]
    fn enter(
        &mut self,
        now_ns: u64,
        priority: u8,
        lane: u8,
        deadline_ns: Option<u64>,
        key: u32,
        weight: u32,
        cost: u64,
    ) -> PyResult<Option<(u64, bool)>> {
        let (Some(class), Some(lane)) = (Class::from_number(priority), Lane::from_number(lane)) else {
            return Err(PyValueError::new_err("priority and lane are 0, 1 or 2"));
        };
        Ok(match self.core.enter(now_ns, class, lane, deadline_ns, Share { key, weight, cost }) {
            Entry::Granted(ticket) => Some((ticket, true)),
            Entry::Waiting(ticket) => Some((ticket, false)),
            Entry::Full => None,
        })
    }

    #[pyo3(signature = (priority, key=0, weight=1))]
    fn crowd_out(&mut self, priority: u8, key: u32, weight: u32) -> PyResult<Option<u64>> {
        let class = Class::from_number(priority).ok_or_else(|| PyValueError::new_err("priority is 0, 1 or 2"))?;
        Ok(self.core.crowd_out(class, Share { key, weight, cost: 0 }))
    }

    #[pyo3(signature = (ticket, used=None))]
    fn leave(&mut self, ticket: u64, used: Option<u64>) -> Option<u64> {
        self.core.leave(ticket, used)
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

type Left = (u64, u64, u64);

/// What one key has used, and its bounds.
#[pyclass(module = "blazar._native")]
pub struct Budget {
    core: CoreBudget,
}

#[pymethods]
impl Budget {
    #[new]
    fn new(rpm: u64, tpm: u64, daily: u64, concurrent: u64, day: u64, used_today: u64) -> Self {
        Self { core: CoreBudget::new(Limits { rpm, tpm, daily, concurrent }, day, used_today) }
    }

    fn limit(&mut self, rpm: u64, tpm: u64, daily: u64, concurrent: u64) {
        self.core.limit(Limits { rpm, tpm, daily, concurrent });
    }

    /// `None`: it is charged. Else the bound that refuses, and the nanoseconds until it does not.
    fn take(&mut self, now_ns: u64, civil_s: u64, tokens: u64) -> Option<(&'static str, Option<u64>)> {
        match self.core.take(now_ns, civil_s, tokens) {
            Ok(()) => None,
            Err(Refusal::Concurrent) => Some(("max_concurrent", None)),
            Err(Refusal::Requests(wait)) => Some(("rpm", Some(wait))),
            Err(Refusal::Tokens(wait)) => Some(("tpm", Some(wait))),
            Err(Refusal::Daily(wait)) => Some(("daily_tokens", Some(wait))),
        }
    }

    fn settle(&mut self, now_ns: u64, civil_s: u64, reserved: u64, used: u64) {
        self.core.settle(now_ns, civil_s, reserved, used);
    }

    fn used_today(&mut self, civil_s: u64) -> u64 {
        self.core.used_today(civil_s)
    }

    #[getter]
    fn running(&self) -> u64 {
        self.core.running()
    }

    /// `(requests, tokens)`, each `(bound, left, nanoseconds until all is there again)` or `None`.
    fn left(&self, now_ns: u64) -> (Option<Left>, Option<Left>) {
        let [requests, tokens] = self.core.left(now_ns);
        (requests, tokens)
    }
}
