//! The pieces of JSON that Anthropic's bodies and streams share.
use crate::chat::{Fault, Finish, Part, Prompt, Request, Usage};
use crate::dialect::Stamp;
use crate::dialect::write::{escaped, int, string};

/// `{"id":…,"type":"message","role":"assistant","model":…,"content":`
pub(super) fn head(model: &str, stamp: &Stamp) -> Vec<u8> {
    let mut out = b"{\"id\":\"msg_".to_vec();
    escaped(stamp.id.get(..24).unwrap_or(&stamp.id), &mut out);
    out.extend_from_slice(b"\",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    string(model, &mut out);
    out.extend_from_slice(b",\"content\":");
    out
}

/// Why it ended. A limit that the request did not set is the context's.
pub(super) fn stop_reason(
    reason: Finish,
    stop: Option<&str>,
    called: bool,
    most: Option<u32>,
    usage: Option<Usage>,
) -> &'static str {
    match reason {
        Finish::Length => match (most, usage) {
            (Some(most), Some(usage)) if usage.completion > 0 && usage.completion < u64::from(most) => {
                "model_context_window_exceeded"
            }
            _ => "max_tokens",
        },
        Finish::ContentFilter => "refusal",
        Finish::Stop | Finish::ToolCalls if called => "tool_use",
        Finish::Stop | Finish::ToolCalls if stop.is_some() => "stop_sequence",
        Finish::Stop | Finish::ToolCalls => "end_turn",
    }
}

/// `"stop_reason":…,"stop_sequence":…`
pub(super) fn stops(reason: &str, stop: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"stop_reason\":");
    string(reason, out);
    out.extend_from_slice(b",\"stop_sequence\":");
    match stop {
        Some(stop) if reason == "stop_sequence" => string(stop, out),
        _ => out.extend_from_slice(b"null"),
    }
}

/// Tokens from the cache are not among `input_tokens`.
pub(super) fn usage(usage: Usage, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"input_tokens\":");
    int(usage.prompt.saturating_sub(usage.cached), out);
    out.extend_from_slice(b",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":");
    int(usage.cached, out);
    out.extend_from_slice(b",\"output_tokens\":");
    int(usage.completion, out);
    if let Some(reasoning) = usage.reasoning {
        out.extend_from_slice(b",\"output_tokens_details\":{\"thinking_tokens\":");
        int(reasoning, out);
        out.push(b'}');
    }
    out.push(b'}');
}

/// A call's id in the form that clients of this dialect check: `toolu_` and letters, digits, `-`, `_`.
pub(super) fn call_id(id: &str, stamp: &str, call: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(if id.starts_with("toolu_") { b"\"" } else { b"\"toolu_" });
    if id.is_empty() {
        escaped(stamp.get(..20).unwrap_or(stamp), out);
        int(call, out);
    }
    crate::dialect::write::id(id, out);
    out.push(b'"');
}

/// What the client gives back with its next request. Nothing here verifies it, and clients drop blocks without one.
pub(super) fn signature(stamp: &str, index: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"blazar");
    escaped(stamp, out);
    int(index, out);
}

/// About how many tokens the prompt has: what a stream says at its start, before the engine has counted. A quarter of the
/// characters, as Anthropic's own documentation advises for estimates.
pub(super) fn estimate(request: &Request) -> u64 {
    let Prompt::Chat(turns) = &request.prompt else { return 0 };
    let parts = turns.iter().flat_map(|turn| &turn.parts).map(|part| match part {
        Part::Text(text) | Part::Reasoning { text, .. } | Part::Result { text, .. } => text.len(),
        Part::Call { name, arguments, .. } => name.len() + arguments.len(),
        Part::Image { .. } | Part::Link(_) | Part::Audio { .. } => 4 * 768,
    });
    let tools = request.tools.iter().map(|tool| {
        let described = tool.description.as_ref().map_or(0, String::len);
        tool.name.len() + described + tool.parameters.as_ref().map_or(0, |schema| schema.get().len())
    });
    let bytes = parts.chain(tools).map(|bytes| bytes as u64).sum::<u64>();
    bytes.div_ceil(4).max(1)
}

/// `{"type":"error",…}`, as the gateway also says it before a stream begins.
pub(super) fn fault(fault: &Fault, out: &mut Vec<u8>) {
    let kind = match fault.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        503 | 507 => "overloaded_error",
        504 => "timeout_error",
        _ => "api_error",
    };
    out.extend_from_slice(b"{\"type\":\"error\",\"error\":{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"message\":");
    string(&fault.message, out);
    out.extend_from_slice(b",\"blazar_code\":");
    string(&fault.code, out);
    out.extend_from_slice(b"}}");
}

/// Description and schema of the tools that Anthropic defines by a type alone and the client itself runs.
pub(super) fn known_tool(kind: &str) -> Option<(&'static str, &'static str)> {
    if kind.starts_with("bash_") {
        return Some((
            "Run a command in a bash shell that is kept between calls.",
            r#"{"type":"object","properties":{"command":{"type":"string","description":"The command to run"},"restart":{"type":"boolean","description":"Start the shell anew"}}}"#,
        ));
    }
    kind.starts_with("text_editor_").then_some((
        "View, create and edit text files.",
        r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string","description":"Absolute path of the file or folder"},"file_text":{"type":"string","description":"For create: the whole text"},"old_str":{"type":"string","description":"For str_replace: the text to replace, which occurs once"},"new_str":{"type":"string","description":"For str_replace: the text that replaces it"},"insert_line":{"type":"integer","description":"For insert: the line after which the text goes"},"insert_text":{"type":"string","description":"For insert: the text"},"view_range":{"type":"array","items":{"type":"integer"},"description":"For view: first and last line"}},"required":["command","path"]}"#,
    ))
}
