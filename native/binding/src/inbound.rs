use crate::errors::{self, bad_body, bad_request};
use blazar_core::{
    chat::{Event, Format, KeepAlive, Part, Prompt, Request, Think, volatile},
    dialect::{self, Encode, Route, Stamp},
    engine::Family,
};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};

/// Bodies above this are read without the GIL: it takes more than 50 microseconds.
const LARGE: usize = 32 * 1024;

/// One parsed request: the few facts that Python needs; the rest stays in Rust.
#[pyclass(module = "blazar._native")]
pub struct Inbound {
    pub(crate) route: Route,
    pub(crate) request: Request,
    name: String,
    body_bytes: usize,
    /// Nothing about it is out of the ordinary: free text, no images, no tools left out, none whose arguments are
    /// checked. Asked for often, and nothing that is done to a request later changes it.
    plain: bool,
}

impl Inbound {
    fn new(route: Route, request: Request, name: String, body_bytes: usize) -> Self {
        let images = matches!(&request.prompt, Prompt::Chat(turns) if turns.iter().flat_map(|turn| &turn.parts)
            .any(|part| matches!(part, Part::Image { .. } | Part::Link(_))));
        let plain = matches!(request.format, Format::Text)
            && request.shape.dropped_tools.is_empty()
            && !images
            && !request.shapes_calls();
        Self { route, request, name, body_bytes, plain }
    }
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

    /// About how many tokens the prompt and the answer may come to.
    #[getter]
    fn cost(&self) -> (u64, u64) {
        self.request.cost(self.body_bytes)
    }

    #[getter]
    fn has_tools(&self) -> bool {
        !self.request.tools.is_empty()
    }

    #[getter]
    fn plain(&self) -> bool {
        self.plain
    }

    #[getter]
    fn dropped_tools(&self) -> Vec<String> {
        self.request.shape.dropped_tools.clone()
    }

    #[getter]
    fn schema(&self) -> Option<&str> {
        match &self.request.format {
            Format::Text => None,
            Format::Json => Some("{\"type\":\"object\"}"),
            Format::Schema { schema, .. } => Some(schema.get()),
        }
    }

    #[getter]
    fn store(&self) -> bool {
        self.request.shape.response.as_ref().is_some_and(|shape| shape.store)
    }

    #[getter]
    fn background(&self) -> bool {
        self.request.shape.response.as_ref().is_some_and(|shape| shape.background)
    }

    #[getter]
    fn previous(&self) -> Option<&str> {
        self.request.shape.response.as_ref().and_then(|shape| shape.previous.as_deref())
    }

    #[getter]
    fn items(&self) -> &str {
        self.request.shape.response.as_ref().map_or("[]", |shape| &shape.items)
    }

    /// The same request after an earlier conversation.
    fn after(&self, earlier: &[u8]) -> PyResult<Self> {
        let mut request = self.request.clone();
        dialect::precede(&mut request, earlier).map_err(bad_body)?;
        Ok(Self::new(self.route, request, self.name.clone(), self.body_bytes))
    }

    /// Take out what differs between requests that are otherwise the same; the names of what went.
    fn normalise(&mut self) -> Vec<&'static str> {
        volatile::take_out(&mut self.request)
    }

    /// `(path, keyword, refused)` of what a schema of the request asks and this family of engines cannot hold to.
    fn unexpressed(&self, family: &str) -> PyResult<Vec<(String, String, bool)>> {
        let family = self::family(family)?;
        let mut found = Vec::new();
        let mut look = |place: &str, schema: &str, strict: bool| {
            let all = family.unexpressed(schema).into_iter();
            found.extend(all.map(|one| (format!("{place}{}", one.path), one.keyword, one.shape && strict)));
        };
        if let Format::Schema { schema, strict, .. } = &self.request.format {
            look("", schema.get(), *strict);
        }
        for tool in self.request.shaped_tools() {
            look(
                &format!("{}: ", tool.name),
                tool.parameters.as_ref().map_or("{}", |schema| schema.get()),
                tool.strict,
            );
        }
        Ok(found)
    }

    #[getter]
    fn lane(&self) -> u8 {
        self.request.lane() as u8
    }

    #[getter]
    fn determined(&self) -> bool {
        self.request.sampling.is_determined()
    }

    /// ``(conversation, head, bytes of the head, bytes)``, where it takes one place of the engine.
    #[getter]
    fn seating(&self) -> Option<(u64, u64, usize, usize)> {
        self.request.seating().map(|seating| (seating.conversation, seating.head, seating.head_bytes, seating.bytes))
    }

    /// It is put into this place of the engine, or into whichever the engine chooses.
    fn sit(&mut self, seat: Option<u32>) {
        self.request.seat = seat;
    }

    /// ``(text, rest, why not)``: what may be compared with another request, what must be equal.
    fn likeness(&self) -> (String, String, &str) {
        match self.request.likeness() {
            Ok(like) => (like.text, like.rest, ""),
            Err(why) => (String::new(), String::new(), why),
        }
    }

    #[getter]
    fn must_call(&self) -> bool {
        self.request.must_call()
    }

    /// `(name, schema)` of the tools whose arguments must follow their schema.
    #[getter]
    fn shaped_tools(&self) -> Vec<(&str, &str)> {
        self.request
            .shaped_tools()
            .map(|tool| (tool.name.as_str(), tool.parameters.as_ref().map_or("{}", |schema| schema.get())))
            .collect()
    }

    #[getter]
    fn links(&self) -> Vec<&str> {
        dialect::links(&self.request)
    }

    /// Put the images in the places of their links.
    #[expect(clippy::needless_pass_by_value, reason = "as PyO3 converts it")]
    fn supply(&mut self, images: Vec<String>) -> PyResult<()> {
        dialect::supply(&mut self.request, &images).map_err(bad_body)
    }

    /// Whether it has pictures that an engine of this family cannot decode and `convert_pictures` can.
    fn has_foreign_pictures(&self, family: &str) -> PyResult<bool> {
        Ok(self::family(family)?.foreign(&self.request))
    }

    /// Make such pictures what the engine can decode, without the GIL: it may take a second.
    fn convert_pictures(&mut self, py: Python<'_>, family: &str) -> PyResult<()> {
        let family = self::family(family)?;
        py.detach(|| family.convert(&mut self.request))
            .map_err(|message| bad_body(dialect::BadBody { message, path: String::new() }))
    }

    /// Put on it what its model's Modelfile sets.
    fn dress(&mut self, overlay: &[u8]) -> PyResult<()> {
        dialect::dress(&mut self.request, overlay).map_err(bad_body)
    }

    #[getter]
    fn has_template(&self) -> bool {
        self.request.template.is_some()
    }

    /// Make text of the conversation with the request's own template.
    fn render(&mut self, now_ns: u64) -> PyResult<()> {
        dialect::render(&mut self.request, now_ns).map_err(bad_body)
    }

    /// The same request, streamed or not.
    fn streamed(&self, stream: bool) -> Self {
        let request = Request { stream, ..self.request.clone() };
        Self::new(self.route, request, self.name.clone(), self.body_bytes)
    }

    #[getter]
    fn has_images(&self) -> bool {
        match &self.request.prompt {
            Prompt::Chat(turns) => {
                turns.iter().flat_map(|turn| &turn.parts).any(|part| matches!(part, Part::Image { .. }))
            }
            Prompt::Text { .. } | Prompt::Tokens(_) | Prompt::Several(_) => false,
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
    Ok(Inbound::new(route, request.map_err(bad_body)?, name, body.len()))
}

/// Raises where a template in Ollama's language cannot be read.
#[pyfunction]
pub fn check_template(template: &str) -> PyResult<()> {
    dialect::check_template(template).map_err(bad_body)
}

/// What a client's stream says before any engine does.
#[pyclass(module = "blazar._native")]
pub struct Prelude {
    encoder: Box<dyn Encode>,
}

#[pymethods]
impl Prelude {
    #[new]
    #[pyo3(signature = (inbound, *, id, created_ns, started_ns))]
    fn new(inbound: &Inbound, id: String, created_ns: u64, started_ns: u64) -> Self {
        let stamp = Stamp { id, created_ns, started_ns, load_ns: 0 };
        Self { encoder: inbound.route.encoder(&inbound.request, stamp) }
    }

    #[getter]
    fn content_type(&self) -> &'static str {
        self.encoder.content_type()
    }

    fn start<'py>(&mut self, py: Python<'py>, now_ns: u64) -> Bound<'py, PyBytes> {
        let mut out = Vec::new();
        self.encoder.event(&Event::Start { choice: 0 }, now_ns, &mut out);
        PyBytes::new(py, &out)
    }

    fn keep_alive<'py>(&mut self, py: Python<'py>, now_ns: u64) -> Bound<'py, PyBytes> {
        let mut out = Vec::new();
        self.encoder.keep_alive(now_ns, &mut out);
        PyBytes::new(py, &out)
    }

    fn fail<'py>(
        &mut self,
        py: Python<'py>,
        status: u16,
        code: String,
        message: String,
        now_ns: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut fault = errors::fault("internal", code, message)?;
        fault.status = status;
        let mut out = Vec::new();
        self.encoder.fault(&fault, now_ns, &mut out);
        Ok(PyBytes::new(py, &out))
    }
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
