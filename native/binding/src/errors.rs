//! Errors that cross into Python, and the kinds that come from there.
use blazar_core::chat::{Fault, FaultKind};
use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, create_exception};

create_exception!(_native, BadInput, PyValueError, "A request's body is wrong: (message, path).");

/// A fault as Python reads it: kind, message, tokens of the prompt, tokens of the context.
pub type FaultTuple = (&'static str, String, Option<u64>, Option<u64>);

pub fn fault_tuple(fault: &Fault) -> FaultTuple {
    (fault.kind.as_str(), fault.message.clone(), fault.tokens, fault.context)
}

/// A request that no engine of this family can be asked.
pub fn fault_error(fault: &Fault) -> PyErr {
    BadInput::new_err((fault.message.clone(), String::new()))
}

/// A failure that Python found: it knows the code and the sentence.
pub fn fault_of(kind: &str, code: &str, message: String) -> Fault {
    const KINDS: [FaultKind; 9] = [
        FaultKind::BadRequest,
        FaultKind::PromptTooLong,
        FaultKind::Unsupported,
        FaultKind::Unavailable,
        FaultKind::BadGateway,
        FaultKind::Cut,
        FaultKind::Timeout,
        FaultKind::Crashed,
        FaultKind::Internal,
    ];
    let kind = KINDS.into_iter().find(|known| known.as_str() == kind).unwrap_or(FaultKind::Internal);
    let mut fault = Fault::new(kind, message);
    code.clone_into(&mut fault.code);
    fault
}
