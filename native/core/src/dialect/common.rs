//! What bodies of several dialects have in common: sampling parameters, tool definitions, arguments.
use super::json::{Kind, Node, parse};
use super::read::{Obj, Read, Under, bad, describe, object, raw};
use super::write::compact;
use crate::chat::{Part, Sampling, Tool};

/// Sampling parameters by the names that OpenAI's dialect, its usual extensions and Ollama's options share.
pub(crate) fn sampling(fields: Obj<'_, '_>) -> Read<Sampling> {
    let repeat = if fields.get("repeat_penalty").is_some() { "repeat_penalty" } else { "repetition_penalty" };
    let mirostat = match fields.int_in("mirostat", 0, 2)? {
        Some(mode) => Some((mode, fields.float("mirostat_tau")?, fields.float("mirostat_eta")?)),
        None => None,
    };
    Ok(Sampling {
        temperature: fields.float_in("temperature", 0.0, f64::INFINITY)?,
        top_p: fields.float_in("top_p", 0.0, 1.0)?,
        top_k: fields.int("top_k")?,
        min_p: fields.float_in("min_p", 0.0, 1.0)?,
        typical_p: fields.float_in("typical_p", 0.0, 1.0)?,
        repeat_penalty: fields.float_in(repeat, 0.0, f64::INFINITY)?,
        repeat_last_n: fields.int_in("repeat_last_n", -1, i64::from(u32::MAX))?,
        presence_penalty: fields.float("presence_penalty")?,
        frequency_penalty: fields.float("frequency_penalty")?,
        seed: fields.int("seed")?,
        logit_bias: None,
        mirostat,
        grammar: None,
    })
}

/// A function's name, description and schema, where the schema lies at `schema`.
pub(crate) fn function(fields: Obj<'_, '_>, schema: &str) -> Read<Tool> {
    Ok(Tool {
        name: fields.required_str("name", "the function's name")?.to_owned(),
        description: fields.str("description")?.map(str::to_owned),
        parameters: fields.raw_object(schema)?,
        strict: fields.bool("strict")?.unwrap_or(false),
    })
}

/// Arguments of an earlier call as JSON text of an object; clients send them as text or as the object itself.
pub(crate) fn arguments(node: Option<&Node<'_>>) -> Read<String> {
    let Some(node) = node else { return Ok("{}".into()) };
    match &node.kind {
        Kind::Object(_) => Ok(compacted(node.raw)),
        Kind::String(text) if text.trim().is_empty() => Ok("{}".into()),
        Kind::String(text) => match parse(text.as_bytes()) {
            Ok(inner) if matches!(inner.kind, Kind::Object(_)) => Ok(text.trim().to_owned()),
            Ok(inner) => bad("", format!("Expected JSON text of an object, found JSON text of {}.", describe(&inner))),
            Err(m) => bad(
                "",
                format!(
                    "Expected JSON text of an object; it is not JSON: {} at line {}, column {}.",
                    m.what, m.line, m.column
                ),
            ),
        },
        _ => bad("", format!("Expected JSON text of an object, found {}.", describe(node))),
    }
}

fn compacted(json: &str) -> String {
    let mut out = Vec::with_capacity(json.len());
    compact(json, &mut out);
    String::from_utf8(out).unwrap_or_else(|_| json.to_owned())
}

/// The finished arguments of a call on one line, if they are the JSON object that they should be.
pub(crate) fn whole_arguments(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("{}".into());
    }
    let node = parse(text.as_bytes()).ok()?;
    matches!(node.kind, Kind::Object(_)).then(|| compacted(node.raw))
}

/// A call in an earlier message, as OpenAI and Ollama nest it.
pub(crate) fn call(node: &Node<'_>) -> Read<Part> {
    let fields = object(node)?;
    let id = fields.str("id")?.unwrap_or_default().to_owned();
    if let Some(custom) = fields.obj("custom")? {
        let read = || {
            let name = custom.required_str("name", "the tool's name")?.to_owned();
            Ok(Part::Call { id, name, arguments: wrapped(custom.str("input")?.unwrap_or_default()) })
        };
        return read().under("custom");
    }
    let Some(function) = fields.obj("function")? else {
        return bad("function", "This field is missing; expected an object with the function's name and arguments.");
    };
    let read = || {
        let name = function.required_str("name", "the function's name")?.to_owned();
        Ok(Part::Call { id, name, arguments: arguments(function.get("arguments")).under("arguments")? })
    };
    read().under("function")
}

/// The arguments of OpenAI's custom tools, which take free text, as engines see them.
pub(crate) fn free_text() -> Read<Box<serde_json::value::RawValue>> {
    const SCHEMA: &str = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;
    serde_json::value::RawValue::from_string(SCHEMA.into()).or_else(|e| bad("", e.to_string()))
}

/// Free text as the arguments of a custom tool.
pub(crate) fn wrapped(input: &str) -> String {
    let mut out = b"{\"input\":".to_vec();
    super::write::string(input, &mut out);
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}

/// The free text that a custom tool's arguments wrap; broken arguments pass as they are.
pub(crate) fn custom_input(arguments: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Wrapped {
        input: String,
    }
    serde_json::from_str::<Wrapped>(arguments).map_or_else(|_| arguments.to_owned(), |wrapped| wrapped.input)
}

/// A schema for the answer.
pub(crate) fn schema(fields: Obj<'_, '_>, key: &str) -> Read<Box<serde_json::value::RawValue>> {
    match fields.get(key) {
        Some(node) => object(node).and_then(|_| raw(node)).under(key),
        None => bad(key, "This field is missing; expected a JSON Schema object."),
    }
}
