//! Instructions and messages, block by block.
use crate::chat::{Part, Role, Turn};
use crate::dialect::json::{Kind, Node};
use crate::dialect::read::{Obj, Read, Under, bad, each, expected, object};
use crate::dialect::{common, media};

/// Blocks become lines.
pub(super) fn system(node: &Node<'_>) -> Read<String> {
    let texts = match &node.kind {
        Kind::String(text) => vec![text.as_ref()],
        Kind::Array(items) => each(items, |item| {
            let fields = object(item)?;
            match fields.str("type")? {
                Some("text") => fields.str("text")?.map_or_else(|| fields.refuse("text", "a string"), Ok),
                _ => fields.refuse("type", "\"text\""),
            }
        })?,
        _ => return expected("a string or an array of text blocks", node),
    };
    let mut all = String::new();
    for text in texts {
        if !text.is_empty() {
            if !all.is_empty() {
                all.push('\n');
            }
            all.push_str(text);
        }
    }
    Ok(all)
}

/// Messages of one role in a row are one. Of a user's message the tool results come first, each a turn of its own.
pub(super) fn conversation(fields: Obj<'_, '_>) -> Read<Vec<Turn>> {
    let Some(items) = fields.array("messages")? else {
        return fields.refuse("messages", "an array of messages");
    };
    if items.is_empty() {
        return bad("messages", "At least one message is required.");
    }
    let said = each(items, message).under("messages")?;
    let mut turns: Vec<Turn> = Vec::new();
    let mut run: Option<(Role, Vec<Block>)> = None;
    for (role, blocks) in said {
        match &mut run {
            Some((current, all)) if *current == role => all.extend(blocks),
            _ => {
                if let Some((role, blocks)) = run.replace((role, blocks)) {
                    close(role, blocks, &mut turns);
                }
            }
        }
    }
    if let Some((role, blocks)) = run {
        close(role, blocks, &mut turns);
    }
    Ok(turns)
}

enum Block {
    Plain(Part),
    /// A tool's result, with the images that belong to it.
    Result(Vec<Part>),
}

fn close(role: Role, blocks: Vec<Block>, turns: &mut Vec<Turn>) {
    let mut parts = Vec::new();
    for block in blocks {
        match block {
            Block::Plain(part) => parts.push(part),
            Block::Result(result) => turns.push(Turn { role: Role::Tool, parts: result }),
        }
    }
    if !parts.is_empty() {
        turns.push(Turn { role, parts });
    }
}

fn message(node: &Node<'_>) -> Read<(Role, Vec<Block>)> {
    let fields = object(node)?;
    let role = match fields.str("role")? {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => return fields.refuse("role", "\"user\" or \"assistant\""),
    };
    let Some(content) = fields.get("content") else {
        return fields.refuse("content", "a string or an array of content blocks");
    };
    let blocks = match &content.kind {
        Kind::String(text) if text.is_empty() => Vec::new(),
        Kind::String(text) => vec![Block::Plain(Part::Text(text.clone().into_owned()))],
        Kind::Array(items) => each(items, |item| block(item, role)).under("content")?.into_iter().flatten().collect(),
        _ => return expected("a string or an array of content blocks", content).under("content"),
    };
    Ok((role, blocks))
}

/// `None` for blocks that say nothing to a model.
fn block(node: &Node<'_>, role: Role) -> Read<Option<Block>> {
    const KINDS: &str = "one of \"text\", \"image\", \"document\", \"thinking\", \"tool_use\", \"tool_result\"";
    let fields = object(node)?;
    let kind = fields.str("type")?;
    let part = match kind {
        Some("thinking") => match fields.str("thinking")?.filter(|text| !text.is_empty()) {
            Some(text) => {
                Part::Reasoning { text: text.to_owned(), signature: fields.str("signature")?.map(str::to_owned) }
            }
            None => return Ok(None),
        },
        Some("tool_use") if role == Role::Assistant => {
            let input = fields.get("input").map(|node| object(node).map(|_| node)).transpose().under("input")?;
            Part::Call {
                id: fields.required_str("id", "the call's id")?.to_owned(),
                name: fields.required_str("name", "the tool's name")?.to_owned(),
                arguments: common::arguments(input)?,
            }
        }
        Some("tool_result") if role == Role::User => return result(fields).map(|parts| Some(Block::Result(parts))),
        Some("tool_use") => return bad("type", "A \"tool_use\" block belongs into a message of the assistant."),
        Some("tool_result") => return bad("type", "A \"tool_result\" block belongs into a message of the user."),
        // Steps of tools that run on Anthropic's servers, encrypted thinking, containers: nothing here could read them.
        Some(
            "redacted_thinking" | "server_tool_use" | "mcp_tool_use" | "mcp_tool_result" | "container_upload"
            | "compaction",
        ) => return Ok(None),
        Some(name) if name.ends_with("_tool_result") => return Ok(None),
        _ => match content(fields)? {
            Some(part) => part,
            None if matches!(kind, Some("text")) => return Ok(None),
            None => return fields.refuse("type", KINDS),
        },
    };
    Ok(Some(Block::Plain(part)))
}

/// A block that may also stand inside a tool's result. `None` for an empty or an unknown one.
fn content(fields: Obj<'_, '_>) -> Read<Option<Part>> {
    Ok(match fields.str("type")? {
        Some("text") => match fields.str("text")? {
            Some("") => None,
            Some(text) => Some(Part::Text(text.to_owned())),
            None => return fields.refuse("text", "a string"),
        },
        Some("image") => Some(image(fields)?),
        Some("document") => Some(Part::Text(document(fields)?)),
        Some("search_result") => Some(Part::Text(search_result(fields)?)),
        _ => None,
    })
}

fn image(fields: Obj<'_, '_>) -> Read<Part> {
    let Some(source) = fields.obj("source")? else { return fields.refuse("source", "an object with the image") };
    let read = || match source.str("type")? {
        Some("base64") => {
            let data = source.required_str("data", "an image in base64")?;
            match source.str("media_type")? {
                Some(mime) if !mime.is_empty() => media::typed(mime, data).under("data"),
                _ => media::sniffed(data).under("data"),
            }
        }
        Some("url") => media::url(source.required_str("url", "a data URL")?).under("url"),
        _ => source.refuse("type", "\"base64\""),
    };
    read().under("source")
}

/// A document's text under its title.
fn document(fields: Obj<'_, '_>) -> Read<String> {
    let Some(source) = fields.obj("source")? else { return fields.refuse("source", "an object with the text") };
    let read = || match source.str("type")? {
        Some("text") => {
            source.str("data")?.map_or_else(|| source.refuse("data", "a string"), |text| Ok(text.to_owned()))
        }
        Some("content") => source.get("content").map_or_else(
            || source.refuse("content", "a string or an array of text blocks"),
            |node| system(node).under("content"),
        ),
        Some("base64" | "url" | "file") => {
            bad("type", "Only documents of text are read here; send their text instead.")
        }
        _ => source.refuse("type", "\"text\" or \"content\""),
    };
    titled(&[fields.str("title")?, fields.str("context")?], &read().under("source")?)
}

fn search_result(fields: Obj<'_, '_>) -> Read<String> {
    let text = match fields.get("content") {
        Some(node) => system(node).under("content")?,
        None => String::new(),
    };
    titled(&[fields.str("title")?, fields.str("source")?], &text)
}

#[allow(clippy::unnecessary_wraps)]
fn titled(lines: &[Option<&str>], text: &str) -> Read<String> {
    let above: Vec<&str> = lines.iter().copied().flatten().filter(|line| !line.is_empty()).collect();
    Ok(if above.is_empty() { text.to_owned() } else { format!("{}\n\n{text}", above.join("\n")) })
}

fn result(fields: Obj<'_, '_>) -> Read<Vec<Part>> {
    let id = fields.required_str("tool_use_id", "the id of the call that it answers")?.to_owned();
    let mut text = String::new();
    let mut more = Vec::new();
    if let Some(node) = fields.get("content") {
        let parts = match &node.kind {
            Kind::String(text) => vec![Part::Text(text.clone().into_owned())],
            // Blocks of kinds that nothing here can read are passed over; the rest of the result still counts.
            Kind::Array(items) => {
                each(items, |item| content(object(item)?)).under("content")?.into_iter().flatten().collect()
            }
            _ => return expected("a string or an array of content blocks", node).under("content"),
        };
        for part in parts {
            match part {
                Part::Text(line) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(&line);
                }
                other => more.push(other),
            }
        }
    }
    let is_error = fields.bool("is_error")?.unwrap_or(false);
    more.insert(0, Part::Result { id, name: None, text, is_error });
    Ok(more)
}

/// An answer that the client has begun. White space at its end would be odd to go on from; whether there is one.
pub(super) fn prefill(turns: &mut [Turn]) -> bool {
    let Some(last) = turns.last_mut().filter(|turn| turn.role == Role::Assistant) else { return false };
    match last.parts.last_mut() {
        Some(Part::Text(text)) => {
            text.truncate(text.trim_end().len());
            true
        }
        _ => false,
    }
}
