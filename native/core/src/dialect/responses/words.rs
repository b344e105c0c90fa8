//! The pieces of JSON that a response's object and its events share.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

use crate::chat::{Fault, Request, Think, ThinkLevel, TokenLogprob, Usage};
use crate::dialect::read::{Obj, Read, bad};
use crate::dialect::write::{compact, int, list, logprob, string};

/// What marks reasoning that we gave out sealed. It is not secret: it only must come back whole.
const SEAL: &str = "blz1.";

/// The members of a response that repeat its request, each with a comma before it.
pub(super) fn echo(fields: Obj<'_, '_>, request: &Request, store: bool, background: bool) -> Read<String> {
    let mut out = Vec::with_capacity(512);
    let raw = |out: &mut Vec<u8>, key: &str, otherwise: &str| {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        match fields.get(key) {
            Some(node) => compact(node.raw, out),
            None => out.extend_from_slice(otherwise.as_bytes()),
        }
    };
    for (key, otherwise) in [
        ("instructions", "null"),
        ("max_output_tokens", "null"),
        ("max_tool_calls", "null"),
        ("metadata", "{}"),
        ("parallel_tool_calls", "true"),
        ("previous_response_id", "null"),
        ("prompt_cache_key", "null"),
        ("safety_identifier", "null"),
        ("temperature", "null"),
        ("tool_choice", "\"auto\""),
        ("tools", "[]"),
        ("top_logprobs", "0"),
        ("top_p", "null"),
        ("presence_penalty", "0"),
        ("frequency_penalty", "0"),
        ("user", "null"),
    ] {
        raw(&mut out, key, otherwise);
    }
    out.extend_from_slice(b",\"text\":{\"format\":");
    match fields.obj("text")?.and_then(|text| text.get("format")) {
        Some(node) => compact(node.raw, &mut out),
        None => out.extend_from_slice(b"{\"type\":\"text\"}"),
    }
    out.extend_from_slice(b"},\"reasoning\":{\"effort\":");
    out.extend_from_slice(match request.think {
        Think::Default | Think::On { level: None, .. } => b"null",
        Think::Off => b"\"none\"",
        Think::On { level: Some(ThinkLevel::Low), .. } => b"\"low\"" as &[u8],
        Think::On { level: Some(ThinkLevel::Medium), .. } => b"\"medium\"",
        Think::On { level: Some(ThinkLevel::High), .. } => b"\"high\"",
    });
    out.extend_from_slice(b",\"summary\":");
    match fields.obj("reasoning")?.and_then(|reasoning| reasoning.get("summary")) {
        Some(node) => compact(node.raw, &mut out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b"},\"service_tier\":\"default\",\"truncation\":\"disabled\",\"store\":");
    out.extend_from_slice(if store { b"true" } else { b"false" });
    out.extend_from_slice(b",\"background\":");
    out.extend_from_slice(if background { b"true" } else { b"false" });
    String::from_utf8(out).or_else(|e| bad("", e.to_string()))
}

pub(super) fn usage(usage: Usage, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"input_tokens\":");
    int(usage.prompt, out);
    out.extend_from_slice(b",\"input_tokens_details\":{\"cached_tokens\":");
    int(usage.cached, out);
    out.extend_from_slice(b"},\"output_tokens\":");
    int(usage.completion, out);
    out.extend_from_slice(b",\"output_tokens_details\":{\"reasoning_tokens\":");
    int(usage.reasoning.unwrap_or(0), out);
    out.extend_from_slice(b"},\"total_tokens\":");
    int(usage.prompt.saturating_add(usage.completion), out);
    out.push(b'}');
}

/// `{"code":…,"message":…}` of a response that failed.
pub(super) fn error(fault: &Fault, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"code\":\"");
    out.extend_from_slice(match fault.status {
        429 => b"rate_limit_exceeded" as &[u8],
        400..500 => b"invalid_prompt",
        _ => b"server_error",
    });
    out.extend_from_slice(b"\",\"message\":");
    string(&fault.message, out);
    out.extend_from_slice(b",\"blazar_code\":");
    string(&fault.code, out);
    out.push(b'}');
}

pub(super) fn logprobs(tokens: &[TokenLogprob], out: &mut Vec<u8>) {
    list(tokens, out, |item, out| {
        token(item, out);
        out.extend_from_slice(b",\"top_logprobs\":");
        list(&item.top, out, |top, out| {
            token(top, out);
            out.push(b'}');
        });
        out.push(b'}');
    });
}

fn token(token: &TokenLogprob, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"token\":");
    string(&token.token, out);
    out.extend_from_slice(b",\"logprob\":");
    logprob(token.logprob, out);
    out.extend_from_slice(b",\"bytes\":");
    list(token.bytes.iter().flatten(), out, |byte, out| int(*byte, out));
}

/// Reasoning for a client that keeps the conversation itself.
pub(super) fn sealed(text: &str) -> String {
    format!("{SEAL}{}", BASE64.encode(text))
}

/// The reasoning in what [`sealed`] gave; None for somebody else's.
pub(super) fn unsealed(text: &str) -> Option<String> {
    String::from_utf8(BASE64.decode(text.strip_prefix(SEAL)?).ok()?).ok()
}
