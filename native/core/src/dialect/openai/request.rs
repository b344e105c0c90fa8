//! Bodies of `/v1/chat/completions` and `/v1/completions`.
use super::messages::messages;
use crate::chat::{Format, Prompt, Request, Sampling, Shape, Think, ThinkLevel, Tool, ToolChoice};
use crate::dialect::json::{Kind, Node};
use crate::dialect::read::{self, Obj, Read, Under, bad, each, expected, integer, object, raw, string};
use crate::dialect::{BadBody, common};

const MOST_CHOICES: i64 = 128;
/// What `/v1/completions` generates unless the client says otherwise.
const TEXT_TOKENS: u32 = 16;

/// A body of `/v1/chat/completions`.
pub(crate) fn chat(body: &[u8]) -> Result<Request, BadBody> {
    read::body(body, |fields| {
        let mut request = Request::new(fields.model()?, Prompt::Chat(messages(fields)?));
        common(fields, &mut request)?;
        request.max_tokens = max_tokens(fields)?;
        tools(fields, &mut request)?;
        request.parallel_tool_calls = fields.bool("parallel_tool_calls")?;
        request.format = format(fields)?;
        request.think = think(fields)?;
        request.logprobs = logprobs(fields)?;
        modalities(fields)?;
        Ok(request)
    })
}

/// A body of `/v1/completions`.
pub(crate) fn text(body: &[u8]) -> Result<Request, BadBody> {
    read::body(body, |fields| {
        let mut request = Request::new(fields.model()?, text_prompt(fields)?);
        common(fields, &mut request)?;
        request.max_tokens = Some(fields.count("max_tokens", 0)?.unwrap_or(TEXT_TOKENS));
        request.logprobs = fields.int_in("logprobs", 0, 20)?.and_then(|top| u8::try_from(top).ok());
        if fields.int("best_of")?.is_some_and(|best| best > i64::from(request.n)) {
            return bad(
                "best_of",
                "Choosing the best of several answers is not possible here; leave best_of out, or ask for n.",
            );
        }
        if i64::from(request.answers()) > MOST_CHOICES {
            return bad(
                "prompt",
                format!("Expected at most {MOST_CHOICES} answers in all, found {}.", request.answers()),
            );
        }
        if request.logprobs.is_some() && fields.bool("echo")?.unwrap_or(false) {
            return bad("echo", "Log probabilities of the prompt are not known here; leave out echo or logprobs.");
        }
        Ok(request)
    })
}

fn common(fields: Obj<'_, '_>, request: &mut Request) -> Read<()> {
    request.sampling = Sampling {
        logit_bias: logit_bias(fields)?,
        grammar: fields.str("grammar")?.filter(|grammar| !grammar.is_empty()).map(str::to_owned),
        ..common::sampling(fields)?
    };
    request.stop = fields.stops("stop")?;
    request.n = fields.int_in("n", 1, MOST_CHOICES)?.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    request.stream = fields.bool("stream")?.unwrap_or(false);
    if let Some(options) = fields.obj("stream_options")? {
        request.include_usage = options.bool("include_usage").under("stream_options")?.unwrap_or(false);
    }
    request.keep_alive = fields.keep_alive()?;
    request.num_ctx = fields.count("num_ctx", 1)?;
    Ok(())
}

fn logit_bias(fields: Obj<'_, '_>) -> Read<Option<Box<serde_json::value::RawValue>>> {
    let Some(node) = fields.get("logit_bias") else { return Ok(None) };
    match node.kind {
        Kind::Object(_) | Kind::Array(_) => raw(node).map(Some),
        _ => expected("an object of token ids and biases", node),
    }
    .under("logit_bias")
}

fn max_tokens(fields: Obj<'_, '_>) -> Read<Option<u32>> {
    let key = if fields.get("max_completion_tokens").is_some() { "max_completion_tokens" } else { "max_tokens" };
    fields.count(key, 1)
}

fn logprobs(fields: Obj<'_, '_>) -> Read<Option<u8>> {
    let on = fields.bool("logprobs")?.unwrap_or(false);
    let top = fields.int_in("top_logprobs", 0, 20)?;
    match (on, top) {
        (true, top) => Ok(Some(top.and_then(|top| u8::try_from(top).ok()).unwrap_or(0))),
        (false, Some(1..)) => {
            bad("top_logprobs", "Alternatives come with log probabilities only; set logprobs to true too.")
        }
        (false, _) => Ok(None),
    }
}

fn modalities(fields: Obj<'_, '_>) -> Read<()> {
    let Some(items) = fields.array("modalities")? else { return Ok(()) };
    let read = each(items, |item| match string(item)? {
        "text" => Ok(()),
        _ => expected("\"text\", the only form of answer here", item),
    });
    read.under("modalities").map(|_| ())
}

// Tools

fn tools(fields: Obj<'_, '_>, request: &mut Request) -> Read<()> {
    if let Some(items) = fields.array("tools")? {
        let offered = each(items, |item| tool(item, &mut request.shape)).under("tools")?;
        request.tools = offered;
    }
    if let (true, Some(items)) = (request.tools.is_empty(), fields.array("functions")?) {
        request.tools = each(items, |item| common::function(object(item)?, "parameters")).under("functions")?;
        request.shape.legacy_functions = !request.tools.is_empty();
    }
    let key = if request.shape.legacy_functions { "function_call" } else { "tool_choice" };
    if let Some(node) = fields.get(key) {
        choice(node, request).under(key)?;
    }
    Ok(())
}

fn tool(node: &Node<'_>, shape: &mut Shape) -> Read<Tool> {
    let fields = object(node)?;
    let missing = |key: &str| bad(key, "This field is missing; expected an object with the tool's name.");
    match fields.str("type")? {
        None | Some("function") => match fields.obj("function")? {
            Some(function) => common::function(function, "parameters").under("function"),
            None => missing("function"),
        },
        Some("custom") => {
            let Some(custom) = fields.obj("custom")? else { return missing("custom") };
            let read = || {
                let name = custom.required_str("name", "the tool's name")?.to_owned();
                Ok((name, custom.str("description")?.map(str::to_owned)))
            };
            let (name, description) = read().under("custom")?;
            shape.custom_tools.push(name.clone());
            Ok(Tool { name, description, parameters: Some(common::free_text()?), strict: false })
        }
        Some(_) => fields.refuse("type", "\"function\" or \"custom\""),
    }
}

fn choice(node: &Node<'_>, request: &mut Request) -> Read<()> {
    if let Kind::String(word) = &node.kind {
        request.tool_choice = mode(word, node)?;
        if request.tools.is_empty() && request.tool_choice == ToolChoice::Required {
            return bad("", "A call is required and no tools are offered; send tools too.");
        }
        return Ok(());
    }
    let Kind::Object(_) = node.kind else { return expected("\"none\", \"auto\", \"required\" or an object", node) };
    let fields = object(node)?;
    if let Some(allowed) = fields.obj("allowed_tools")? {
        return allow(allowed, request).under("allowed_tools");
    }
    let name = name_of(fields)?;
    if !request.tools.iter().any(|tool| tool.name == name) {
        return bad("", format!("The tool \"{name}\" is called for and not among the tools."));
    }
    request.tool_choice = ToolChoice::Named(name.to_owned());
    Ok(())
}

fn mode(word: &str, node: &Node<'_>) -> Read<ToolChoice> {
    match word {
        "none" => Ok(ToolChoice::None),
        "auto" => Ok(ToolChoice::Auto),
        "required" | "any" => Ok(ToolChoice::Required),
        _ => expected("\"none\", \"auto\", \"required\" or an object", node),
    }
}

/// `{function: {name}}`, `{custom: {name}}`, and `{name}` of the old form.
fn name_of<'n>(fields: Obj<'n, '_>) -> Read<&'n str> {
    for key in ["function", "custom"] {
        if let Some(inner) = fields.obj(key)? {
            return inner.required_str("name", "the tool's name").under(key);
        }
    }
    fields.required_str("name", "the tool's name")
}

/// Only some of the tools may be called.
fn allow(fields: Obj<'_, '_>, request: &mut Request) -> Read<()> {
    if let Some(node) = fields.get("mode") {
        request.tool_choice = string(node).and_then(|word| mode(word, node)).under("mode")?;
    }
    let Some(items) = fields.array("tools")? else {
        return bad("tools", "This field is missing; expected an array of tools.");
    };
    let names = each(items, |item| name_of(object(item)?)).under("tools")?;
    request.tools.retain(|tool| names.contains(&tool.name.as_str()));
    if request.tools.is_empty() {
        return bad("tools", "None of the allowed tools is among the tools.");
    }
    Ok(())
}

// The answer's shape, and thinking

fn format(fields: Obj<'_, '_>) -> Read<Format> {
    const KINDS: &str = "one of \"text\", \"json_object\", \"json_schema\"";
    let Some(wanted) = fields.obj("response_format")? else {
        return Ok(match fields.get("json_schema") {
            Some(_) => schema(common::schema(fields, "json_schema")?, "schema", false),
            None => Format::Text,
        });
    };
    let read = || match wanted.str("type")? {
        Some("text") => Ok(Format::Text),
        Some("json_object") if wanted.get("schema").is_some() => {
            Ok(schema(common::schema(wanted, "schema")?, "schema", false))
        }
        Some("json_object") => Ok(Format::Json),
        Some("json_schema") => {
            let Some(inner) = wanted.obj("json_schema")? else {
                return bad("json_schema", "This field is missing; expected an object with name and schema.");
            };
            let read = || {
                let name = inner.str("name")?.filter(|name| !name.is_empty()).unwrap_or("schema");
                let strict = inner.bool("strict")?.unwrap_or(false);
                Ok(schema(common::schema(inner, "schema")?, name, strict))
            };
            read().under("json_schema")
        }
        _ => wanted.refuse("type", KINDS),
    };
    read().under("response_format")
}

fn schema(schema: Box<serde_json::value::RawValue>, name: &str, strict: bool) -> Format {
    Format::Schema { name: name.to_owned(), schema, strict }
}

/// OpenAI's own word for it, and those of other vendors that clients of this dialect also send.
fn think(fields: Obj<'_, '_>) -> Read<Think> {
    if let Some(node) = fields.get("reasoning_effort") {
        return effort(node).under("reasoning_effort");
    }
    if let Some(reasoning) = fields.obj("reasoning")? {
        let read = || {
            if let Some(node) = reasoning.get("effort") {
                return effort(node).under("effort");
            }
            let budget = reasoning.count("max_tokens", 0)?;
            Ok(match (reasoning.bool("enabled")?, budget) {
                (Some(false), _) | (_, Some(0)) => Think::Off,
                (None, None) => Think::Default,
                _ => Think::On { level: None, budget },
            })
        };
        return read().under("reasoning");
    }
    if let Some(thinking) = fields.obj("thinking")? {
        return Ok(switch(thinking.str("type").under("thinking")?.map(|word| word != "disabled")));
    }
    if let Some(arguments) = fields.obj("chat_template_kwargs")?
        && let on @ Some(_) = arguments.bool("enable_thinking").under("chat_template_kwargs")?
    {
        return Ok(switch(on));
    }
    Ok(switch(fields.bool("enable_thinking")?))
}

fn switch(on: Option<bool>) -> Think {
    match on {
        None => Think::Default,
        Some(false) => Think::Off,
        Some(true) => Think::On { level: None, budget: None },
    }
}

fn effort(node: &Node<'_>) -> Read<Think> {
    let level = match string(node)? {
        "none" | "off" => return Ok(Think::Off),
        "minimal" | "low" => ThinkLevel::Low,
        "medium" => ThinkLevel::Medium,
        "high" | "xhigh" | "max" => ThinkLevel::High,
        _ => return expected("one of \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\", \"max\"", node),
    };
    Ok(Think::On { level: Some(level), budget: None })
}

// Text

fn text_prompt(fields: Obj<'_, '_>) -> Read<Prompt> {
    let suffix = fields.str("suffix")?.filter(|suffix| !suffix.is_empty()).map(str::to_owned);
    let echo = fields.bool("echo")?.unwrap_or(false);
    let Some(node) = fields.get("prompt") else {
        return bad("prompt", "This field is missing; expected a string or an array of tokens.");
    };
    let repeated = |prompt| match prompt {
        Prompt::Text { prompt, .. } => Ok(Prompt::Text { prompt, suffix: None, echo }),
        Prompt::Tokens(_) if echo => bad("echo", "A prompt of tokens cannot be repeated as text; leave echo out."),
        other => Ok(other),
    };
    match prompts(node).under("prompt")? {
        Prompt::Several(_) if suffix.is_some() => bad("suffix", "A suffix needs one prompt, not several."),
        Prompt::Several(all) => all.into_iter().map(repeated).collect::<Read<_>>().map(Prompt::Several),
        Prompt::Tokens(_) if suffix.is_some() => bad("suffix", "A suffix needs a prompt of text, not of tokens."),
        Prompt::Text { prompt, .. } => Ok(Prompt::Text { prompt, suffix, echo }),
        other => repeated(other),
    }
}

/// A string, tokens, or an array of these.
fn prompts(node: &Node<'_>) -> Read<Prompt> {
    let as_text = |text: &str| Prompt::Text { prompt: text.to_owned(), suffix: None, echo: false };
    let items = match &node.kind {
        Kind::String(text) => return Ok(as_text(text)),
        Kind::Array(items) => items,
        _ => return expected("a string or an array of tokens", node),
    };
    match items.first().map(|first| &first.kind) {
        None => bad("", "Expected a prompt, found an empty array."),
        Some(Kind::Number) => Ok(Prompt::Tokens(each(items, token)?)),
        Some(_) => {
            let mut all = each(items, |item| match &item.kind {
                Kind::String(text) => Ok(as_text(text)),
                Kind::Array(tokens) if !tokens.is_empty() => each(tokens, token).map(Prompt::Tokens),
                _ => expected("a string or an array of tokens", item),
            })?;
            Ok(if all.len() == 1 { all.remove(0) } else { Prompt::Several(all) })
        }
    }
}

fn token(node: &Node<'_>) -> Read<u32> {
    u32::try_from(integer(node)?).or_else(|_| expected("a token's number", node))
}
