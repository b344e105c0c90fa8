//! Core's errors as Python's.
use blazar_core::{
    chat::{Fault, FaultKind},
    dialect::BadBody,
};
use pyo3::{create_exception, exceptions::PyValueError, prelude::*};

create_exception!(
    blazar._native,
    BadInput,
    PyValueError,
    "A request's body is wrong. `args` is `(message, path)`; the path is empty for the whole body."
);

/// `(kind, message, tokens, context)`.
pub type FaultTuple = (&'static str, String, Option<u64>, Option<u64>);

pub fn bad_body(error: BadBody) -> PyErr {
    BadInput::new_err((error.message, error.path))
}

/// A request that cannot be put to the engine.
pub fn bad_request(fault: Fault) -> PyErr {
    BadInput::new_err((fault.message, ""))
}

pub fn fault_tuple(fault: &Fault) -> FaultTuple {
    (fault.kind.as_str(), fault.message.clone(), fault.tokens, fault.context)
}

/// The fault that Python describes; an empty `code` leaves the kind's own.
pub fn fault(kind: &str, code: String, message: String) -> PyResult<Fault> {
    let kind = FaultKind::from_name(kind)
        .ok_or_else(|| PyValueError::new_err(format!("there is no kind of fault named {kind:?}")))?;
    let mut fault = Fault::new(kind, message);
    if !code.is_empty() {
        fault.code = code.into();
    }
    Ok(fault)
}
