use crate::errors::{bad_body, bad_request};
use blazar_core::{
    chat::{KeepAlive, Part, Prompt, Request, Think},
    dialect::Route,
    engine::Family,
};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};

/// Bodies above this are read without the GIL: it takes more than 50 microseconds.
const LARGE: usize = 32 * 1024;

/// One parsed request: the few facts that Python needs; the rest stays in Rust.
#[pyclass(frozen, module = "blazar._native")]
pub struct Inbound {
    pub(crate) route: Route,
    pub(crate) request: Request,
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
    fn thinks(&self) -> bool {
        matches!(self.request.think, Think::On { .. })
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
pub fn parse(py: Python<'_>, route: &str, body: &Bound<'_, PyBytes>) -> PyResult<Inbound> {
    let name = route.to_owned();
    let route =
        Route::from_name(route).ok_or_else(|| PyValueError::new_err(format!("there is no route named {route:?}")))?;
    let body = body.as_bytes();
    let request = if body.len() > LARGE { py.detach(|| route.parse(body)) } else { route.parse(body) };
    Ok(Inbound { route, request: request.map_err(bad_body)?, name, body_bytes: body.len() })
}

/// Path and body of the engine's request that counts the prompt's tokens.
#[pyfunction]
pub fn count_request<'py>(
    py: Python<'py>,
    inbound: &Inbound,
    family: &str,
    alias: &str,
) -> PyResult<(&'static str, Bound<'py, PyBytes>)> {
    let outbound = self::family(family)?.count(&inbound.request, alias).map_err(bad_request)?;
    Ok((outbound.path, PyBytes::new(py, &outbound.body)))
}

/// The family of this name.
pub fn family(name: &str) -> PyResult<Family> {
    Family::from_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("there is no family of engines named {name:?}")))
}
