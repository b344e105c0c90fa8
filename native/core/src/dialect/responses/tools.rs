//! The tools of a request, and which of them must be called.
use super::request::fields as fields_of;
use crate::chat::{Request, Shape, Tool, ToolChoice};
use crate::dialect::common;
use crate::dialect::json::{Kind, Node};
use crate::dialect::read::{Obj, Read, Under, bad, each, expected, string};

/// Functions and custom tools. Those that the vendor runs itself are left out, and named.
pub(super) fn tools(fields: Obj<'_, '_>, request: &mut Request) -> Read<()> {
    if let Some(items) = fields.array("tools")? {
        let offered = each(items, |item| tool(item, &mut request.shape)).under("tools")?;
        request.tools = offered.into_iter().flatten().collect();
    }
    if let Some(node) = fields.get("tool_choice") {
        choice(node, request).under("tool_choice")?;
    }
    Ok(())
}

fn tool(node: &Node<'_>, shape: &mut Shape) -> Read<Option<Tool>> {
    let fields = fields_of(node)?;
    match fields.str("type")? {
        Some("function") => common::function(fields, "parameters").map(Some),
        Some("custom") => {
            let name = fields.required_str("name", "the tool's name")?.to_owned();
            let description = fields.str("description")?.map(str::to_owned);
            shape.custom_tools.push(name.clone());
            Ok(Some(Tool { name, description, parameters: Some(common::free_text()?), strict: false }))
        }
        Some(kind) => {
            if !shape.dropped_tools.iter().any(|dropped| dropped == kind) {
                shape.dropped_tools.push(kind.to_owned());
            }
            Ok(None)
        }
        None => fields.refuse("type", "\"function\" or \"custom\""),
    }
}

fn choice(node: &Node<'_>, request: &mut Request) -> Read<()> {
    if let Kind::String(word) = &node.kind {
        request.tool_choice = mode(word, node)?;
        if request.tools.is_empty() && request.tool_choice == ToolChoice::Required {
            return bad("", "A call is required and no tools are offered that can be called here.");
        }
        return Ok(());
    }
    let Kind::Object(_) = node.kind else { return expected("\"none\", \"auto\", \"required\" or an object", node) };
    let fields = fields_of(node)?;
    match fields.str("type")? {
        Some("function" | "custom") => {
            let name = fields.required_str("name", "the tool's name")?;
            if !request.tools.iter().any(|tool| tool.name == name) {
                return bad("name", format!("The tool \"{name}\" is called for and not among the tools."));
            }
            request.tool_choice = ToolChoice::Named(name.to_owned());
            Ok(())
        }
        Some("allowed_tools") => allow(fields, request),
        // A tool that the vendor runs: it was left out, and the header says so.
        Some(_) => Ok(()),
        None => fields.refuse("type", "\"function\", \"custom\" or \"allowed_tools\""),
    }
}

fn mode(word: &str, node: &Node<'_>) -> Read<ToolChoice> {
    match word {
        "none" => Ok(ToolChoice::None),
        "auto" => Ok(ToolChoice::Auto),
        "required" => Ok(ToolChoice::Required),
        _ => expected("\"none\", \"auto\", \"required\" or an object", node),
    }
}

/// Only some of the tools may be called.
fn allow(fields: Obj<'_, '_>, request: &mut Request) -> Read<()> {
    if let Some(node) = fields.get("mode") {
        request.tool_choice = string(node).and_then(|word| mode(word, node)).under("mode")?;
    }
    let Some(items) = fields.array("tools")? else {
        return bad("tools", "This field is missing; expected an array of tools.");
    };
    let names = each(items, |item| {
        let fields = fields_of(item)?;
        Ok(fields.str("name")?.unwrap_or_default())
    })
    .under("tools")?;
    request.tools.retain(|tool| names.contains(&tool.name.as_str()));
    if request.tools.is_empty() {
        return bad("tools", "None of the allowed tools is among the tools.");
    }
    Ok(())
}
