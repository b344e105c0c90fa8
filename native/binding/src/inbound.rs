//! `blazar._native.Inbound` and its reader.
use blazar_core::chat::{KeepAlive, Part, Prompt, Request};
use blazar_core::dialect::Route;
use blazar_core::engine::Family;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{BadInput, fault_error};

/// Bodies above this are read without the GIL.
const LARGE: usize = 32 * 1024;

/// One parsed request: the few facts that Python needs; the rest stays here.
#[pyclass(frozen, module = "blazar._native")]
pub struct Inbound {
    pub(crate) request: Request,
    pub(crate) route: Route,
    name: String,
    body_bytes: usize,
}

#[pymethods]
impl Inbound {
    #[getter]
    fn route(&self) -> &str {
        &self.name
    }

    #[getter]
    fn model(&self) -> &str {
        &self.request.model
    }

    #[getter]
    fn stream(&self) -> bool {
        self.request.stream
    }

    #[getter]
    fn load_only(&self) -> bool {
        self.request.load_only
    }

    #[getter]
    fn keep_alive_s(&self) -> Option<f64> {
        self.request.keep_alive.map(|keep| match keep {
            KeepAlive::Seconds(seconds) => seconds,
            KeepAlive::Forever => -1.0,
        })
    }

    #[getter]
    fn num_ctx(&self) -> Option<u32> {
        self.request.num_ctx
    }

    #[getter]
    fn max_tokens(&self) -> Option<u32> {
        self.request.max_tokens
    }

    #[getter]
    fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    #[getter]
    fn has_tools(&self) -> bool {
        !self.request.tools.is_empty()
    }

    #[getter]
    fn has_images(&self) -> bool {
        match &self.request.prompt {
            Prompt::Chat(turns) => {
                turns.iter().flat_map(|turn| &turn.parts).any(|part| matches!(part, Part::Image { .. }))
            }
            Prompt::Text { .. } | Prompt::Tokens(_) => false,
        }
    }
}

/// Read a body.
#[pyfunction]
pub fn parse(py: Python<'_>, route: &str, body: &[u8]) -> PyResult<Inbound> {
    let known = Route::from_name(route).ok_or_else(|| PyValueError::new_err(format!("unknown route {route}")))?;
    let read = if body.len() > LARGE { py.detach(|| known.parse(body)) } else { known.parse(body) };
    let request = read.map_err(|bad| BadInput::new_err((bad.message, bad.path)))?;
    Ok(Inbound { request, route: known, name: route.to_owned(), body_bytes: body.len() })
}

/// Path and body of the engine's request that counts the prompt's tokens.
#[pyfunction]
pub fn count_request<'py>(
    py: Python<'py>,
    inbound: &Inbound,
    family: &str,
    alias: &str,
) -> PyResult<(&'static str, Bound<'py, PyBytes>)> {
    let outbound = known_family(family)?.count(&inbound.request, alias).map_err(|fault| fault_error(&fault))?;
    Ok((outbound.path, PyBytes::new(py, &outbound.body)))
}

pub fn known_family(name: &str) -> PyResult<Family> {
    Family::from_name(name).ok_or_else(|| PyValueError::new_err(format!("unknown engine family {name}")))
}
