//! Bodies of `/v1/responses`.
use super::{input, tools, words};
use crate::chat::{Format, Part, Prompt, Request, ResponseShape, Role, Sampling, Think, ThinkLevel, Turn};
use crate::dialect::json::Kind;
use crate::dialect::read::{self, Obj, Read, Under, bad, each, expected, object, string};
use crate::dialect::{BadBody, common, history};

/// A body of `/v1/responses`.
pub(crate) fn response(body: &[u8]) -> Result<Request, BadBody> {
    read::body(body, |fields| {
        let template = fields.get("prompt").is_some_and(|node| matches!(node.kind, Kind::Object(_)));
        let kept = template.then_some("prompt").or_else(|| fields.get("conversation").map(|_| "conversation"));
        if let Some(key) = kept {
            return bad(key, "Kept conversations and prompts are not known here; send instructions and input.");
        }
        let (mut turns, items) = input::input(fields)?;
        let instructions = fields.str("instructions")?.filter(|text| !text.is_empty());
        if let Some(text) = instructions {
            turns.insert(0, Turn { role: Role::System, parts: vec![Part::Text(text.to_owned())] });
        }
        history::pair(&mut turns);
        let mut request = Request::new(fields.model()?, Prompt::Chat(turns));
        request.sampling = Sampling { ..common::sampling(fields)? };
        request.stop = fields.stops("stop")?;
        request.max_tokens = fields.count("max_output_tokens", 1)?;
        request.stream = fields.bool("stream")?.unwrap_or(false);
        request.keep_alive = fields.keep_alive()?;
        request.num_ctx = fields.count("num_ctx", 1)?;
        tools::tools(fields, &mut request)?;
        request.parallel_tool_calls = fields.bool("parallel_tool_calls")?;
        request.format = format(fields)?;
        request.think = think(fields)?;
        let included = included(fields)?;
        let top = fields.int_in("top_logprobs", 0, 20)?.and_then(|top| u8::try_from(top).ok());
        if included.iter().any(|name| name == "message.output_text.logprobs") {
            request.logprobs = Some(top.unwrap_or(0));
        }
        let store = fields.bool("store")?.unwrap_or(true);
        let background = fields.bool("background")?.unwrap_or(false);
        if background && !store {
            return bad(
                "background",
                "What runs in the background is fetched later; leave store out, or set it to true.",
            );
        }
        let summary = fields
            .obj("reasoning")?
            .is_some_and(|reasoning| ["summary", "generate_summary"].iter().any(|key| reasoning.get(key).is_some()));
        request.shape.response = Some(Box::new(ResponseShape {
            echo: words::echo(fields, &request, store, background)?,
            summary,
            encrypted: included.iter().any(|name| name == "reasoning.encrypted_content"),
            store,
            background,
            previous: fields.str("previous_response_id")?.filter(|id| !id.is_empty()).map(str::to_owned),
            instructed: instructions.is_some(),
            items,
        }));
        Ok(request)
    })
}

/// Put an earlier conversation, a JSON array of items, before what `request` says, and after its instructions.
pub(crate) fn precede(request: &mut Request, earlier: &[u8]) -> Result<(), BadBody> {
    let turns = input::earlier(earlier)?;
    let at = usize::from(request.shape.response.as_ref().is_some_and(|shape| shape.instructed));
    if let Prompt::Chat(all) = &mut request.prompt {
        all.splice(at..at, turns);
        history::pair(all);
    }
    Ok(())
}

fn included(fields: Obj<'_, '_>) -> Read<Vec<String>> {
    let Some(items) = fields.array("include")? else { return Ok(Vec::new()) };
    each(items, |item| string(item).map(str::to_owned)).under("include")
}

fn format(fields: Obj<'_, '_>) -> Read<Format> {
    let Some(text) = fields.obj("text")? else { return Ok(Format::Text) };
    let read = || {
        let Some(wanted) = text.obj("format")? else { return Ok(Format::Text) };
        let read = || match wanted.str("type")? {
            Some("text") => Ok(Format::Text),
            Some("json_object") => Ok(Format::Json),
            Some("json_schema") => Ok(Format::Schema {
                name: wanted.str("name")?.filter(|name| !name.is_empty()).unwrap_or("schema").to_owned(),
                schema: common::schema(wanted, "schema")?,
                strict: wanted.bool("strict")?.unwrap_or(false),
            }),
            _ => wanted.refuse("type", "one of \"text\", \"json_object\", \"json_schema\""),
        };
        read().under("format")
    };
    read().under("text")
}

fn think(fields: Obj<'_, '_>) -> Read<Think> {
    let Some(reasoning) = fields.obj("reasoning")? else { return Ok(Think::Default) };
    let read = || {
        let Some(node) = reasoning.get("effort") else { return Ok(Think::Default) };
        let level = match string(node).under("effort")? {
            "none" => return Ok(Think::Off),
            "minimal" | "low" => ThinkLevel::Low,
            "medium" => ThinkLevel::Medium,
            "high" | "xhigh" | "max" => ThinkLevel::High,
            _ => {
                return expected("one of \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\"", node)
                    .under("effort");
            }
        };
        Ok(Think::On { level: Some(level), budget: None })
    };
    read().under("reasoning")
}

/// The fields of one tool or item, for the rooms beside this one.
pub(super) fn fields<'n, 'a>(node: &'n crate::dialect::json::Node<'a>) -> Read<Obj<'n, 'a>> {
    object(node)
}
