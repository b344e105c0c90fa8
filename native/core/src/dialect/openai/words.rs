//! The pieces of JSON that OpenAI's bodies and streams share.
use crate::chat::{Fault, FaultKind, Finish, TokenLogprob, Usage};
use crate::dialect::write::{escaped, int, list, logprob, string};
use crate::dialect::{Route, Stamp};

/// From the opening brace to the comma before `choices`: what every chunk of an answer repeats.
pub(super) fn head(route: Route, streams: bool, model: &str, stamp: &Stamp) -> Vec<u8> {
    let (prefix, object) = match (route, streams) {
        (Route::OpenaiText, _) => ("cmpl-", "text_completion"),
        (_, true) => ("chatcmpl-", "chat.completion.chunk"),
        (_, false) => ("chatcmpl-", "chat.completion"),
    };
    let mut out = b"{\"id\":\"".to_vec();
    out.extend_from_slice(prefix.as_bytes());
    escaped(&stamp.id, &mut out);
    out.extend_from_slice(b"\",\"object\":\"");
    out.extend_from_slice(object.as_bytes());
    out.extend_from_slice(b"\",\"created\":");
    crate::dialect::time::seconds(stamp.created_ns, &mut out);
    out.extend_from_slice(b",\"model\":");
    string(model, &mut out);
    out.push(b',');
    out
}

/// The reason as this route says it.
pub(super) fn finish(reason: Option<Finish>, route: Route, called: bool, legacy: bool) -> &'static str {
    match reason {
        Some(Finish::Length) => "length",
        Some(Finish::ContentFilter) => "content_filter",
        Some(Finish::Stop | Finish::ToolCalls) | None if called && route == Route::OpenaiChat => {
            if legacy {
                "function_call"
            } else {
                "tool_calls"
            }
        }
        Some(Finish::Stop | Finish::ToolCalls) | None => "stop",
    }
}

pub(super) fn usage(usage: Usage, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"prompt_tokens\":");
    int(usage.prompt, out);
    out.extend_from_slice(b",\"completion_tokens\":");
    int(usage.completion, out);
    out.extend_from_slice(b",\"total_tokens\":");
    int(usage.prompt.saturating_add(usage.completion), out);
    out.extend_from_slice(b",\"prompt_tokens_details\":{\"cached_tokens\":");
    int(usage.cached, out);
    out.push(b'}');
    if let Some(reasoning) = usage.reasoning {
        out.extend_from_slice(b",\"completion_tokens_details\":{\"reasoning_tokens\":");
        int(reasoning, out);
        out.push(b'}');
    }
    out.push(b'}');
}

/// `{"content":[…],"refusal":null}` of chat.
pub(super) fn chat_logprobs(tokens: &[TokenLogprob], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"content\":");
    list(tokens, out, |token, out| {
        chat_token(token, out);
        out.extend_from_slice(b",\"top_logprobs\":");
        list(&token.top, out, |top, out| {
            chat_token(top, out);
            out.push(b'}');
        });
        out.push(b'}');
    });
    out.extend_from_slice(b",\"refusal\":null}");
}

fn chat_token(token: &TokenLogprob, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"token\":");
    string(&token.token, out);
    out.extend_from_slice(b",\"logprob\":");
    logprob(token.logprob, out);
    out.extend_from_slice(b",\"bytes\":");
    match &token.bytes {
        Some(bytes) => list(bytes, out, |byte, out| int(*byte, out)),
        None => out.extend_from_slice(b"null"),
    }
}

/// The four parallel arrays of text completions. `offset` counts characters before the first token; returns it after the
/// last.
pub(super) fn text_logprobs(tokens: &[TokenLogprob], mut offset: u64, out: &mut Vec<u8>) -> u64 {
    out.extend_from_slice(b"{\"tokens\":");
    list(tokens, out, |token, out| string(&token.token, out));
    out.extend_from_slice(b",\"token_logprobs\":");
    list(tokens, out, |token, out| logprob(token.logprob, out));
    out.extend_from_slice(b",\"top_logprobs\":");
    list(tokens, out, |token, out| {
        out.push(b'{');
        for (i, top) in token.top.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            string(&top.token, out);
            out.push(b':');
            logprob(top.logprob, out);
        }
        out.push(b'}');
    });
    out.extend_from_slice(b",\"text_offset\":");
    list(tokens, out, |token, out| {
        int(offset, out);
        offset += token.token.chars().count() as u64;
    });
    out.push(b'}');
    offset
}

/// An id for a call that came without one.
pub(super) fn call_id(id: &str, stamp: &str, choice: u32, call: u32, out: &mut Vec<u8>) {
    out.push(b'"');
    if id.is_empty() {
        out.extend_from_slice(b"call_");
        escaped(stamp.get(..16).unwrap_or(stamp), out);
        int(choice, out);
        out.push(b'_');
        int(call, out);
    } else {
        crate::dialect::write::id(id, out);
    }
    out.push(b'"');
}

/// `{"error":{…}}`, as the gateway also says it before a stream begins.
pub(super) fn fault(fault: &Fault, out: &mut Vec<u8>) {
    let kind = match fault.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        _ => "server_error",
    };
    out.extend_from_slice(b"{\"error\":{\"message\":");
    string(&fault.message, out);
    out.extend_from_slice(b",\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"param\":null,\"code\":\"");
    if fault.kind == FaultKind::PromptTooLong {
        out.extend_from_slice(b"context_length_exceeded");
    } else {
        escaped(&fault.code.to_ascii_lowercase(), out);
    }
    out.extend_from_slice(b"\",\"blazar_code\":");
    string(&fault.code, out);
    out.extend_from_slice(b"}}");
}
