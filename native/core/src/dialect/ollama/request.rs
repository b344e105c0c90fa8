//! Bodies of `/api/chat` and `/api/generate`.
use super::context;
use crate::chat::{Format, Part, Prompt, Request, Role, Sampling, Think, ThinkLevel, Turn};
use crate::dialect::json::{Kind, Node};
use crate::dialect::read::{self, Obj, Read, Under, bad, each, expected, object, raw, string};
use crate::dialect::{BadBody, common, history, media};

/// A body of `/api/chat`.
pub(crate) fn chat(body: &[u8]) -> Result<Request, BadBody> {
    read::body(body, |fields| {
        let mut turns = match fields.array("messages")? {
            Some(items) => each(items, message).under("messages")?,
            None => Vec::new(),
        };
        history::pair(&mut turns);
        let load_only = turns.is_empty();
        let mut request = Request::new(fields.model()?, Prompt::Chat(turns));
        request.load_only = load_only;
        common(fields, &mut request)?;
        if let Some(items) = fields.array("tools")? {
            request.tools = each(items, tool).under("tools")?;
        }
        Ok(request)
    })
}

/// A body of `/api/generate`.
pub(crate) fn generate(body: &[u8]) -> Result<Request, BadBody> {
    read::body(body, |fields| {
        let model = fields.model()?;
        let prompt = fields.str("prompt")?.unwrap_or_default();
        let suffix = fields.str("suffix")?.filter(|text| !text.is_empty());
        let images = fields.array("images")?.map(images).transpose()?.unwrap_or_default();
        let load_only = prompt.is_empty() && suffix.is_none() && images.is_empty();
        let plain = fields.bool("raw")?.unwrap_or(false);
        let template = fields.str("template")?.filter(|text| !text.is_empty());
        let system = fields.str("system")?.filter(|text| !text.is_empty());
        let earlier = fields.array("context")?.map(context::read).transpose().under("context")?.unwrap_or_default();
        if plain && (template.is_some() || system.is_some() || !earlier.is_empty()) {
            return bad("raw", "raw mode does not support template, system, or context.");
        }
        let asked = if plain || suffix.is_some() {
            if !images.is_empty() {
                return bad("images", "Images need the model's template; leave out raw and suffix, or the images.");
            }
            Prompt::Text { prompt: prompt.to_owned(), suffix: suffix.map(str::to_owned), echo: false }
        } else {
            Prompt::Chat(if load_only { Vec::new() } else { turns(earlier, system, prompt, images) })
        };
        let mut request = Request::new(model, asked);
        request.load_only = load_only;
        request.template = template.map(str::to_owned);
        if let Prompt::Chat(turns) = &request.prompt {
            request.shape.said = context::json(turns);
        }
        common(fields, &mut request)?;
        Ok(request)
    })
}

/// The prompt after what was said before; its own instructions replace earlier ones.
fn turns(mut turns: Vec<Turn>, system: Option<&str>, prompt: &str, images: Vec<Part>) -> Vec<Turn> {
    if let Some(system) = system {
        turns.retain(|turn| turn.role != Role::System);
        turns.insert(0, Turn { role: Role::System, parts: vec![Part::Text(system.to_owned())] });
    }
    let mut parts = vec![Part::Text(prompt.to_owned())];
    parts.extend(images);
    turns.push(Turn { role: Role::User, parts });
    turns
}

fn common(fields: Obj<'_, '_>, request: &mut Request) -> Read<()> {
    request.stream = fields.bool("stream")?.unwrap_or(true);
    request.keep_alive = fields.keep_alive()?;
    request.format = format(fields)?;
    request.think = think(fields)?;
    request.logprobs = logprobs(fields)?;
    request.defaults = defaults();
    fields.obj("options")?.map_or(Ok(()), |given| options(given, request).under("options"))
}

pub(super) fn options(given: Obj<'_, '_>, request: &mut Request) -> Read<()> {
    request.sampling = common::sampling(given)?;
    if let Some(node) = given.get("stop") {
        if !matches!(node.kind, Kind::Array(_)) {
            return expected("an array of strings", node).under("stop");
        }
        request.stop = given.stops("stop")?;
    }
    // Zero and less mean: up to the context.
    let most = given.int("num_predict")?.filter(|most| *most > 0);
    request.max_tokens = most.map(|most| u32::try_from(most).unwrap_or(u32::MAX));
    request.num_ctx = given.count("num_ctx", 0)?.filter(|tokens| *tokens > 0);
    Ok(())
}

/// Ollama's own values where the client names none. The engine's differ, and clients of this dialect rely on these.
fn defaults() -> Sampling {
    Sampling {
        temperature: Some(0.8),
        top_p: Some(0.9),
        top_k: Some(40),
        min_p: Some(0.0),
        typical_p: Some(1.0),
        repeat_penalty: Some(1.0),
        repeat_last_n: Some(64),
        presence_penalty: Some(0.0),
        frequency_penalty: Some(0.0),
        seed: Some(-1),
        ..Sampling::default()
    }
}

fn format(fields: Obj<'_, '_>) -> Read<Format> {
    let Some(node) = fields.get("format") else { return Ok(Format::Text) };
    match &node.kind {
        Kind::String(text) if text.is_empty() => Ok(Format::Text),
        Kind::String(text) if text == "json" => Ok(Format::Json),
        Kind::Object(_) => Ok(Format::Schema { name: "schema".into(), schema: raw(node)?, strict: false }),
        _ => expected("\"json\" or a valid JSON Schema object", node),
    }
    .under("format")
}

fn think(fields: Obj<'_, '_>) -> Read<Think> {
    const WORDS: &str = "true, false, \"low\", \"medium\", \"high\" or \"max\"";
    let Some(node) = fields.get("think") else { return Ok(Think::Default) };
    let level = match &node.kind {
        Kind::Bool(false) => return Ok(Think::Off),
        Kind::Bool(true) => None,
        Kind::String(word) => match word.as_ref() {
            "" => return Ok(Think::Default),
            "low" => Some(ThinkLevel::Low),
            "medium" => Some(ThinkLevel::Medium),
            "high" | "max" => Some(ThinkLevel::High),
            _ => return expected(WORDS, node).under("think"),
        },
        _ => return expected(WORDS, node).under("think"),
    };
    Ok(Think::On { level, budget: None })
}

fn logprobs(fields: Obj<'_, '_>) -> Read<Option<u8>> {
    let on = fields.bool("logprobs")?.unwrap_or(false);
    let top = match fields.int("top_logprobs")? {
        Some(top) if !(0..=20).contains(&top) => {
            return bad("top_logprobs", format!("top_logprobs must be between 0 and 20; found {top}."));
        }
        top => top.and_then(|top| u8::try_from(top).ok()).unwrap_or(0),
    };
    Ok(on.then_some(top))
}

pub(super) fn message(node: &Node<'_>) -> Read<Turn> {
    const ROLES: &str = "one of \"system\", \"user\", \"assistant\", \"tool\"";
    let fields = object(node)?;
    let role = match fields.str("role")?.map(str::to_ascii_lowercase).as_deref() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => return fields.refuse("role", ROLES),
    };
    let content = match fields.get("content") {
        Some(node) => match &node.kind {
            Kind::String(text) => text.as_ref(),
            _ => return expected("a string (images lie in a field of their own)", node).under("content"),
        },
        None => "",
    };
    let mut parts = Vec::new();
    if let Some(text) = fields.str("thinking")?.filter(|text| !text.is_empty()) {
        parts.push(Part::Reasoning { text: text.to_owned(), signature: None });
    }
    if role == Role::Tool {
        let name = fields.str("tool_name")?.or(fields.str("name")?).filter(|name| !name.is_empty());
        parts.push(Part::Result {
            id: fields.str("tool_call_id")?.unwrap_or_default().to_owned(),
            name: name.map(str::to_owned),
            text: content.to_owned(),
            is_error: false,
        });
    } else if !content.is_empty() || role != Role::Assistant {
        parts.push(Part::Text(content.to_owned()));
    }
    if let Some(items) = fields.array("images")? {
        parts.extend(images(items)?);
    }
    if let Some(items) = fields.array("tool_calls")? {
        parts.extend(each(items, common::call).under("tool_calls")?);
    }
    Ok(Turn { role, parts })
}

fn images(items: &[Node<'_>]) -> Read<Vec<Part>> {
    each(items, |item| media::url(string(item)?)).under("images")
}

fn tool(node: &Node<'_>) -> Read<crate::chat::Tool> {
    match object(node)?.obj("function")? {
        Some(function) => common::function(function, "parameters").under("function"),
        None => bad("function", "This field is missing; expected an object with the function's name."),
    }
}
