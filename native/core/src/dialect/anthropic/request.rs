//! Bodies of `/v1/messages` and `/v1/messages/count_tokens`.
use super::messages::{conversation, prefill, system};
use super::words;
use crate::chat::{Format, Part, Prompt, Request, Role, Shape, Think, ThinkLevel, Tool, ToolChoice, Turn};
use crate::dialect::json::Node;
use crate::dialect::read::{self, Obj, Read, Under, array, bad, each, object};
use crate::dialect::{BadBody, common, history};

/// A body of `/v1/messages`.
pub(crate) fn messages(body: &[u8]) -> Result<Request, BadBody> {
    read::body(body, |fields| {
        let mut request = asked(fields)?;
        let Some(most) = fields.count("max_tokens", 0)? else {
            return bad("max_tokens", "This field is missing; expected the most tokens to generate.");
        };
        request.max_tokens = Some(most);
        Ok(request)
    })
}

/// A body of `/v1/messages/count_tokens`: the same, and nothing is generated.
pub(crate) fn count(body: &[u8]) -> Result<Request, BadBody> {
    read::body(body, |fields| Ok(Request { stream: false, ..asked(fields)? }))
}

fn asked(fields: Obj<'_, '_>) -> Read<Request> {
    let model = fields.model()?;
    let mut turns = Vec::new();
    let instructions = fields.get("system").map(|node| system(node).under("system")).transpose()?;
    if let Some(text) = instructions.filter(|text| !text.is_empty()) {
        turns.push(Turn { role: Role::System, parts: vec![Part::Text(text)] });
    }
    turns.extend(conversation(fields)?);
    history::pair(&mut turns);
    let prefilled = prefill(&mut turns);
    let mut request = Request::new(model, Prompt::Chat(turns));
    request.sampling.temperature = fields.float_in("temperature", 0.0, f64::INFINITY)?;
    request.sampling.top_p = fields.float_in("top_p", 0.0, 1.0)?;
    request.sampling.top_k = fields.int("top_k")?;
    request.stop = stops(fields)?;
    request.stream = fields.bool("stream")?.unwrap_or(false);
    request.keep_alive = fields.keep_alive()?;
    request.num_ctx = fields.count("num_ctx", 1)?;
    request.format = format(fields)?;
    request.think = think(fields, &mut request.shape)?;
    if prefilled {
        // A begun answer is past the point where thinking could happen.
        request.think = Think::Off;
    }
    tools(fields, &mut request)?;
    Ok(request)
}

/// Upstream refuses sequences of white space; here they are left out, since a model's first line break would end it.
fn stops(fields: Obj<'_, '_>) -> Read<Vec<String>> {
    if let Some(node) = fields.get("stop_sequences") {
        array(node).under("stop_sequences")?;
    }
    Ok(fields.stops("stop_sequences")?.into_iter().filter(|stop| !stop.trim().is_empty()).collect())
}

fn format(fields: Obj<'_, '_>) -> Read<Format> {
    let read = |format: Obj<'_, '_>| match format.str("type")? {
        Some("json_schema") => {
            Ok(Format::Schema { name: "schema".into(), schema: common::schema(format, "schema")?, strict: true })
        }
        _ => format.refuse("type", "\"json_schema\""),
    };
    if let Some(config) = fields.obj("output_config")?
        && let Some(format) = config.obj("format").under("output_config")?
    {
        return read(format).under("format").under("output_config");
    }
    fields.obj("output_format")?.map_or(Ok(Format::Text), |format| read(format).under("output_format"))
}

fn think(fields: Obj<'_, '_>, shape: &mut Shape) -> Read<Think> {
    let Some(thinking) = fields.obj("thinking")? else { return Ok(Think::Off) };
    let read = |shape: &mut Shape| {
        shape.omit_thinking = thinking.str("display")? == Some("omitted");
        match thinking.str("type")? {
            Some("disabled") => Ok(Think::Off),
            Some("enabled") => match thinking.count("budget_tokens", 1)? {
                Some(budget) => Ok(Think::On { level: None, budget: Some(budget) }),
                None => thinking.refuse("budget_tokens", "the most tokens to think"),
            },
            Some("adaptive" | "between_tools") => Ok(Think::On { level: None, budget: None }),
            _ => thinking.refuse("type", "\"enabled\", \"adaptive\" or \"disabled\""),
        }
    };
    let think = read(shape).under("thinking")?;
    match (think, effort(fields)?) {
        (Think::On { budget: None, .. }, level) => Ok(Think::On { level, budget: None }),
        (think, _) => Ok(think),
    }
}

fn effort(fields: Obj<'_, '_>) -> Read<Option<ThinkLevel>> {
    let Some(config) = fields.obj("output_config")? else { return Ok(None) };
    let read = || match config.str("effort")? {
        None => Ok(None),
        Some("low") => Ok(Some(ThinkLevel::Low)),
        Some("medium") => Ok(Some(ThinkLevel::Medium)),
        Some("high" | "xhigh" | "max") => Ok(Some(ThinkLevel::High)),
        _ => config.refuse("effort", "one of \"low\", \"medium\", \"high\", \"xhigh\", \"max\""),
    };
    read().under("output_config")
}

fn tools(fields: Obj<'_, '_>, request: &mut Request) -> Read<()> {
    if let Some(items) = fields.array("tools")? {
        let offered = each(items, |item| tool(item, &mut request.shape)).under("tools")?;
        request.tools = offered.into_iter().flatten().collect();
        if let (true, Some(kind)) = (request.tools.is_empty(), request.shape.dropped_tools.first()) {
            return bad(
                "tools",
                format!("Tools of the type \"{kind}\" run on Anthropic's servers only, and no others are offered."),
            );
        }
    }
    if let Some(choice) = fields.obj("tool_choice")? {
        chosen(choice, request).under("tool_choice")?;
    }
    Ok(())
}

/// `None` for a tool that somebody else's server would run.
fn tool(node: &Node<'_>, shape: &mut Shape) -> Read<Option<Tool>> {
    let fields = object(node)?;
    let Some(kind) = fields.str("type")?.filter(|kind| *kind != "custom") else {
        return common::function(fields, "input_schema").map(Some);
    };
    let Some((description, schema)) = words::known_tool(kind) else {
        shape.dropped_tools.push(kind.to_owned());
        return Ok(None);
    };
    let name = fields.required_str("name", "the tool's name")?.to_owned();
    let parameters = serde_json::value::RawValue::from_string(schema.to_owned()).or_else(|e| bad("", e.to_string()))?;
    Ok(Some(Tool { name, description: Some(description.to_owned()), parameters: Some(parameters), strict: false }))
}

fn chosen(fields: Obj<'_, '_>, request: &mut Request) -> Read<()> {
    request.tool_choice = match fields.str("type")? {
        Some("auto") => ToolChoice::Auto,
        Some("none") => ToolChoice::None,
        Some("any") => ToolChoice::Required,
        Some("tool") => {
            let name = fields.required_str("name", "the tool's name")?;
            if !request.tools.iter().any(|tool| tool.name == name) {
                return bad("name", format!("The tool \"{name}\" is called for and not among the tools."));
            }
            ToolChoice::Named(name.to_owned())
        }
        _ => return fields.refuse("type", "one of \"auto\", \"any\", \"tool\", \"none\""),
    };
    if request.tools.is_empty() && request.tool_choice == ToolChoice::Required {
        return bad("type", "A call is required and no tools are offered; send tools too.");
    }
    if let Some(off) = fields.bool("disable_parallel_tool_use")? {
        request.parallel_tool_calls = Some(!off);
    }
    Ok(())
}
