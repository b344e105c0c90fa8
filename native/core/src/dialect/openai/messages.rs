//! The messages of a chat.
use crate::chat::{Part, Role, Turn};
use crate::dialect::json::{Kind, Node};
use crate::dialect::read::{Obj, Read, Under, bad, each, expected, object};
use crate::dialect::{common, history, media};

/// A conversation; every result knows its call.
pub(super) fn messages(fields: Obj<'_, '_>) -> Read<Vec<Turn>> {
    let Some(items) = fields.array("messages")? else {
        return bad("messages", "This field is missing; expected an array of messages.");
    };
    if items.is_empty() {
        return bad("messages", "Expected at least one message, found an empty array.");
    }
    let mut turns = each(items, message).under("messages")?;
    history::pair(&mut turns);
    Ok(turns)
}

fn message(node: &Node<'_>) -> Read<Turn> {
    let fields = object(node)?;
    let role = match fields.str("role")? {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => return assistant(fields),
        Some("tool") => {
            return result(fields, fields.required_str("tool_call_id", "the id of the call that it answers")?);
        }
        Some("function") => return result(fields, ""),
        _ => return fields.refuse("role", ROLES),
    };
    let parts = match fields.get("content") {
        Some(node) => content(node).under("content")?,
        None => return bad("content", "This field is missing; expected a string or an array of content parts."),
    };
    Ok(Turn { role, parts })
}

const ROLES: &str = "one of \"system\", \"developer\", \"user\", \"assistant\", \"tool\"";

fn assistant(fields: Obj<'_, '_>) -> Read<Turn> {
    let mut parts = Vec::new();
    for key in ["reasoning_content", "reasoning"] {
        // Clients replay what they received; `reasoning` may also be an object of another vendor, which says nothing here.
        if let Some(Kind::String(text)) = fields.get(key).map(|node| &node.kind)
            && !text.is_empty()
        {
            parts.push(Part::Reasoning { text: text.clone().into_owned(), signature: None });
            break;
        }
    }
    let said = fields.get("content").map(|node| content(node).under("content")).transpose()?;
    let silent = said.is_none();
    parts.extend(said.into_iter().flatten());
    if let Some(refusal) = fields.str("refusal")?.filter(|text| !text.is_empty()) {
        parts.push(Part::Text(refusal.to_owned()));
    }
    if let Some(calls) = fields.array("tool_calls")? {
        parts.extend(each(calls, common::call).under("tool_calls")?);
    }
    if let Some(call) = fields.obj("function_call")? {
        let read = || {
            let name = call.required_str("name", "the function's name")?.to_owned();
            let arguments = common::arguments(call.get("arguments")).under("arguments")?;
            Ok(Part::Call { id: String::new(), name, arguments })
        };
        parts.push(read().under("function_call")?);
    }
    if silent && parts.is_empty() {
        return bad(
            "content",
            "This field is missing; expected a string, an array of content parts, or tool_calls beside it.",
        );
    }
    Ok(Turn { role: Role::Assistant, parts })
}

/// What a tool answered. Images cannot lie inside of the result; they follow it.
fn result(fields: Obj<'_, '_>, id: &str) -> Read<Turn> {
    let said = fields.get("content").map(|node| content(node).under("content")).transpose()?;
    let mut text = String::new();
    let mut parts = Vec::new();
    for part in said.into_iter().flatten() {
        match part {
            Part::Text(more) => text.push_str(&more),
            other => parts.push(other),
        }
    }
    let name = fields.str("name")?.filter(|name| !name.is_empty()).map(str::to_owned);
    parts.insert(0, Part::Result { id: id.to_owned(), name, text, is_error: false });
    Ok(Turn { role: Role::Tool, parts })
}

fn content(node: &Node<'_>) -> Read<Vec<Part>> {
    match &node.kind {
        Kind::String(text) => Ok(vec![Part::Text(text.clone().into_owned())]),
        Kind::Array(items) => each(items, part),
        _ => expected("a string or an array of content parts", node),
    }
}

fn part(node: &Node<'_>) -> Read<Part> {
    if let Kind::String(text) = &node.kind {
        return Ok(Part::Text(text.clone().into_owned()));
    }
    let fields = object(node)?;
    let text = |key: &str| match fields.str(key)? {
        Some(text) => Ok(Part::Text(text.to_owned())),
        None => bad(key, "This field is missing; expected a string."),
    };
    match fields.str("type")? {
        Some("text" | "input_text" | "output_text") => text("text"),
        Some("refusal") => text("refusal"),
        Some("image_url" | "input_image") => image(fields),
        Some("input_audio") => audio(fields),
        Some("file" | "input_file") => bad("type", "Files inside messages are not read here; send their text instead."),
        _ => fields.refuse("type", PARTS),
    }
}

const PARTS: &str = "one of \"text\", \"image_url\", \"input_audio\"";

fn image(fields: Obj<'_, '_>) -> Read<Part> {
    let Some(node) = fields.get("image_url") else {
        return bad("image_url", "This field is missing; expected an object with a data URL.");
    };
    if let Kind::String(url) = &node.kind {
        return media::url(url).under("image_url");
    }
    let read = || media::url(object(node)?.required_str("url", "a data URL")?).under("url");
    read().under("image_url")
}

fn audio(fields: Obj<'_, '_>) -> Read<Part> {
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
