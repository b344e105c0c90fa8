//! The items of a conversation.
use crate::chat::{Part, Role, Turn};
use crate::dialect::json::{Kind, Node, parse};
use crate::dialect::read::{Obj, Read, Under, array, bad, expected, object};
use crate::dialect::write::{compact, string as quoted};
use crate::dialect::{BadBody, common, media};

use super::words;

/// The turns of `input`, and its items as a JSON array of one line.
pub(super) fn input(fields: Obj<'_, '_>) -> Read<(Vec<Turn>, String)> {
    let Some(node) = fields.get("input") else {
        return bad("input", "This field is missing; expected a string or an array of items.");
    };
    let mut json = Vec::new();
    let turns = match &node.kind {
        Kind::String(text) => {
            json.extend_from_slice(
                b"[{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":",
            );
            quoted(text, &mut json);
            json.extend_from_slice(b"}]}]");
            vec![Turn { role: Role::User, parts: vec![Part::Text(text.clone().into_owned())] }]
        }
        Kind::Array(list) => {
            compact(node.raw, &mut json);
            items(list).under("input")?
        }
        _ => return expected("a string or an array of items", node).under("input"),
    };
    Ok((turns, String::from_utf8(json).or_else(|e| bad("input", e.to_string()))?))
}

/// The turns of a kept conversation.
pub(super) fn earlier(json: &[u8]) -> Result<Vec<Turn>, BadBody> {
    let node = parse(json).map_err(|m| BadBody {
        message: format!("The kept conversation is not JSON: {}.", m.what),
        path: String::new(),
    })?;
    array(&node).and_then(items).under("previous_response_id")
}

/// Reasoning, text and calls in a row are one turn of the model's.
fn items(list: &[Node<'_>]) -> Read<Vec<Turn>> {
    let mut turns: Vec<Turn> = Vec::with_capacity(list.len());
    for (place, node) in list.iter().enumerate() {
        let Some((role, parts)) = item(node).under_index(place)? else { continue };
        match turns.last_mut() {
            Some(turn) if turn.role == role && matches!(role, Role::Assistant | Role::Tool) => turn.parts.extend(parts),
            _ => turns.push(Turn { role, parts }),
        }
    }
    Ok(turns)
}

/// One item; None for what hosted tools did elsewhere.
fn item(node: &Node<'_>) -> Read<Option<(Role, Vec<Part>)>> {
    let fields = object(node)?;
    Ok(Some(match fields.str("type")? {
        None | Some("message") => message(fields)?,
        Some("function_call") => {
            let id = fields.required_str("call_id", "the call's id")?.to_owned();
            let name = fields.required_str("name", "the function's name")?.to_owned();
            let arguments = common::arguments(fields.get("arguments")).under("arguments")?;
            (Role::Assistant, vec![Part::Call { id, name, arguments }])
        }
        Some("custom_tool_call") => {
            let id = fields.required_str("call_id", "the call's id")?.to_owned();
            let name = fields.required_str("name", "the tool's name")?.to_owned();
            let arguments = common::wrapped(fields.str("input")?.unwrap_or_default());
            (Role::Assistant, vec![Part::Call { id, name, arguments }])
        }
        Some("function_call_output" | "custom_tool_call_output") => (Role::Tool, output(fields)?),
        Some("reasoning") => (Role::Assistant, reasoning(fields)?),
        Some("item_reference") => {
            return bad("type", "Items are not kept one by one here; send the item, or previous_response_id.");
        }
        Some(kind) if kind.ends_with("_call") || kind.ends_with("_output") || kind.starts_with("mcp_") => {
            return Ok(None);
        }
        Some("compaction") => return Ok(None),
        Some(_) => return fields.refuse("type", ITEMS),
    }))
}

const ITEMS: &str = "one of \"message\", \"function_call\", \"function_call_output\", \"custom_tool_call\", \
                     \"custom_tool_call_output\", \"reasoning\"";

fn message(fields: Obj<'_, '_>) -> Read<(Role, Vec<Part>)> {
    let role = match fields.str("role")? {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return fields.refuse("role", "one of \"system\", \"developer\", \"user\", \"assistant\""),
    };
    let Some(node) = fields.get("content") else {
        return bad("content", "This field is missing; expected a string or an array of content parts.");
    };
    Ok((role, content(node).under("content")?))
}

fn content(node: &Node<'_>) -> Read<Vec<Part>> {
    match &node.kind {
        Kind::String(text) => Ok(vec![Part::Text(text.clone().into_owned())]),
        Kind::Array(items) => items.iter().enumerate().map(|(at, item)| part(item).under_index(at)).collect(),
        _ => expected("a string or an array of content parts", node),
    }
}

fn part(node: &Node<'_>) -> Read<Part> {
    let fields = object(node)?;
    let text = |key: &str| match fields.str(key)? {
        Some(text) => Ok(Part::Text(text.to_owned())),
        None => bad(key, "This field is missing; expected a string."),
    };
    match fields.str("type")? {
        Some("input_text" | "output_text" | "text" | "summary_text" | "reasoning_text") => text("text"),
        Some("refusal") => text("refusal"),
        Some("input_image" | "image_url") => match fields.get("image_url") {
            Some(Node { kind: Kind::String(url), .. }) => media::url(url).under("image_url"),
            Some(node) => object(node)
                .and_then(|inner| media::url(inner.required_str("url", "a data URL")?).under("url"))
                .under("image_url"),
            None => bad("image_url", "This field is missing; expected a data URL."),
        },
        Some("input_audio") => {
            let Some(sound) = fields.obj("input_audio")? else {
                return bad("input_audio", "This field is missing; expected an object with data and format.");
            };
            let read = || {
                let data = sound.required_str("data", "sound in base64")?;
                match sound.str("format")? {
                    Some(format) if !format.is_empty() => media::audio(format, data).under("data"),
                    _ => media::sniffed(data).under("data"),
                }
            };
            read().under("input_audio")
        }
        Some("input_file") => bad("type", "Files inside messages are not read here; send their text instead."),
        _ => fields.refuse("type", "one of \"input_text\", \"input_image\", \"input_audio\", \"output_text\""),
    }
}

/// What a tool answered. Images cannot lie inside of the result; they follow it.
fn output(fields: Obj<'_, '_>) -> Read<Vec<Part>> {
    let id = fields.required_str("call_id", "the id of the call that it answers")?.to_owned();
    let Some(node) = fields.get("output") else {
        return bad("output", "This field is missing; expected a string or an array of content parts.");
    };
    let (mut text, mut rest) = (String::new(), Vec::new());
    for part in content(node).under("output")? {
        match part {
            Part::Text(more) => text.push_str(&more),
            other => rest.push(other),
        }
    }
    rest.insert(0, Part::Result { id, name: None, text, is_error: false });
    Ok(rest)
}

/// The text of the reasoning itself, else what it carries sealed, else its summary.
fn reasoning(fields: Obj<'_, '_>) -> Read<Vec<Part>> {
    let texts = |key: &str| -> Read<String> {
        let Some(node) = fields.get(key) else { return Ok(String::new()) };
        let mut text = String::new();
        for part in content(node).under(key)? {
            if let Part::Text(more) = part {
                text.push_str(&more);
            }
        }
        Ok(text)
    };
    let mut text = texts("content")?;
    if text.is_empty() {
        text = fields.str("encrypted_content")?.and_then(words::unsealed).unwrap_or_default();
    }
    if text.is_empty() {
        text = texts("summary")?;
    }
    Ok(if text.is_empty() { Vec::new() } else { vec![Part::Reasoning { text, signature: None }] })
}
