//! What is answered: shapes and pace.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blazar_load::{Stamp, now_ns, write_stamp};
use memchr::memmem;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::args::Args;

const BUILD: &str = "b11434-abc1234";

/// Whether a path makes text.
pub fn generates(path: &str) -> bool {
    matches!(path, "/v1/chat/completions" | "/chat/completions" | "/v1/completions" | "/completions")
}

/// The head of an answer: of known length, or chunked events.
pub fn head(out: &mut Vec<u8>, status: u16, length: Option<usize>, last: bool) {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        _ => "Not Found",
    };
    // Writing to a Vec cannot fail.
    let _ = write!(out, "HTTP/1.1 {status} {reason}\r\nServer: llama.cpp\r\nAccess-Control-Allow-Origin: \r\n");
    let _ = match length {
        Some(length) => {
            write!(out, "Content-Type: application/json; charset=utf-8\r\nContent-Length: {length}\r\n")
        }
        None => write!(out, "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"),
    };
    out.extend_from_slice(if last { b"Connection: close\r\n\r\n" } else { b"Keep-Alive: timeout=5, max=100\r\n\r\n" });
}

/// An error in the shape of the real one.
fn error(code: u16, kind: &str, message: &str) -> String {
    json!({"error": {"code": code, "message": message, "type": kind}}).to_string()
}

/// 401.
pub fn unauthorized() -> String {
    error(401, "authentication_error", "Invalid API Key")
}

/// 400.
pub fn bad_request() -> String {
    error(400, "invalid_request_error", "The body is no JSON object")
}

/// 404.
pub fn not_found() -> String {
    error(404, "not_found_error", "File Not Found")
}

/// Everything that is not generated text; none for an unknown path.
pub fn facts(path: &str, args: &Args, busy: usize, body: &[u8]) -> Option<String> {
    let per_slot = args.context / args.slots;
    let answer = match path {
        "/health" | "/v1/health" => json!({"status": "ok"}),
        "/v1/models" | "/models" => json!({
            "object": "list",
            "models": [{"name": args.alias, "model": args.alias, "capabilities": ["completion"]}],
            "data": [{"id": args.alias, "aliases": [args.alias], "object": "model", "created": seconds(),
                "owned_by": "llamacpp", "meta": {"n_vocab": 260, "n_ctx": per_slot, "n_ctx_train": args.context}}],
        }),
        "/props" => json!({
            "default_generation_settings": {"n_ctx": per_slot, "params": {}},
            "total_slots": args.slots,
            "model_alias": args.alias,
            "model_path": args.model,
            "modalities": {"vision": false, "audio": false, "video": false},
            "endpoint_slots": true,
            "endpoint_props": false,
            "endpoint_metrics": false,
            "chat_template": "",
            "chat_template_caps": {"supports_tools": false, "supports_system_role": true},
            "build_info": BUILD,
            "is_sleeping": false,
        }),
        "/slots" => (0..args.slots)
            .map(|id| json!({"id": id, "n_ctx": per_slot, "speculative": false, "is_processing": id < busy}))
            .collect(),
        "/tokenize" => json!({"tokens": (0..body.len() / 4).collect::<Vec<_>>()}),
        "/apply-template" => json!({"prompt": String::from_utf8_lossy(body)}),
        "/v1/chat/completions/input_tokens" => json!({"input_tokens": body.len() / 4}),
        _ => return None,
    };
    Some(answer.to_string())
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default, alias = "max_completion_tokens", alias = "n_predict")]
    max_tokens: Option<i64>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

/// One answer that is to be generated.
pub struct Answer {
    /// As events.
    pub stream: bool,
    /// Pieces of text.
    pub tokens: u64,
    /// Pieces per write.
    pub burst: u64,
    chat: bool,
    usage: bool,
    rate: u64,
    delay: Duration,
    width: usize,
    prompt: usize,
    id: String,
    created: u64,
    finish: &'static str,
    model: String,
}

impl Answer {
    /// From a request's body; none if that is no JSON object.
    pub fn of(path: &str, body: &[u8], args: &Args) -> Option<Self> {
        let asked: Asked = serde_json::from_slice(body).ok()?;
        let limit = asked.max_tokens.and_then(|limit| u64::try_from(limit).ok());
        let tokens = wish(body, "tokens").or(limit).unwrap_or(16).min(limit.unwrap_or(u64::MAX)).max(1);
        let kind = if path.contains("chat") { "chatcmpl" } else { "cmpl" };
        Some(Self {
            stream: asked.stream.unwrap_or(false),
            tokens,
            burst: wish(body, "burst").unwrap_or(1).max(1),
            chat: path.contains("chat"),
            usage: asked.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
            rate: wish(body, "rate").unwrap_or(0),
            delay: Duration::from_millis(wish(body, "delay_ms").unwrap_or(0)),
            width: usize::try_from(wish(body, "bytes").unwrap_or(0)).unwrap_or(0),
            prompt: body.len() / 4,
            id: format!("{kind}-{:032x}", u128::from(now_ns()) * 0x9E37_79B9_7F4A_7C15),
            created: seconds(),
            finish: if limit == Some(tokens) { "length" } else { "stop" },
            model: args.alias.clone(),
        })
    }

    /// Whether pieces wait for their time.
    pub fn paced(&self) -> bool {
        self.rate > 0
    }

    /// When a piece is due, from the start.
    pub fn due(&self, piece: u64) -> Duration {
        self.delay + (piece * 1_000_000_000).checked_div(self.rate).map_or(Duration::ZERO, Duration::from_nanos)
    }

    /// The whole answer as one object.
    pub fn whole(&self) -> String {
        let mut text = Vec::new();
        for sequence in 0..self.tokens {
            write_stamp(&mut text, Stamp { sequence, sent_ns: now_ns() }, self.width);
        }
        let text = String::from_utf8_lossy(&text);
        let choice = if self.chat {
            json!({"finish_reason": self.finish, "index": 0, "message": {"role": "assistant", "content": text}})
        } else {
            json!({"finish_reason": self.finish, "index": 0, "logprobs": null, "text": text})
        };
        self.object(&json!([choice]), "chat.completion", true).to_string()
    }

    /// The chunk that opens a chat: a role and no text.
    pub fn opening(&self, out: &mut Vec<u8>) {
        if self.chat {
            self.event(out, r#"{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}"#, b"");
        }
    }

    /// One piece of text, stamped with the present.
    pub fn piece(&self, sequence: u64, out: &mut Vec<u8>) {
        let mut text = Vec::with_capacity(64);
        write_stamp(&mut text, Stamp { sequence, sent_ns: now_ns() }, self.width);
        if self.chat {
            self.event(out, r#"{"finish_reason":null,"index":0,"delta":{"content":""#, &text);
        } else {
            self.event(out, r#"{"finish_reason":null,"index":0,"logprobs":null,"text":""#, &text);
        }
    }

    /// The finish, usage where it belongs, and the end of the stream.
    pub fn closing(&self, out: &mut Vec<u8>) {
        let choice = if self.chat {
            json!({"finish_reason": self.finish, "index": 0, "delta": {}})
        } else {
            json!({"finish_reason": self.finish, "index": 0, "logprobs": null, "text": ""})
        };
        let apart = self.chat && self.usage;
        data(out, &self.object(&json!([choice]), "chat.completion.chunk", !apart).to_string());
        if apart {
            data(out, &self.object(&json!([]), "chat.completion.chunk", true).to_string());
        }
        data(out, "[DONE]");
        out.extend_from_slice(b"0\r\n\r\n");
    }

    /// One event of the hot kind, without a JSON writer: `choice` opens, `text` follows, all braces are closed.
    fn event(&self, out: &mut Vec<u8>, choice: &str, text: &[u8]) {
        let closing = match (text.is_empty(), self.chat) {
            (true, _) => "",
            (false, true) => "\"}}",
            (false, false) => "\"}",
        };
        let object = if self.chat { "chat.completion.chunk" } else { "text_completion" };
        let mut event = Vec::with_capacity(384);
        event.extend_from_slice(b"data: {\"choices\":[");
        event.extend_from_slice(choice.as_bytes());
        event.extend_from_slice(text);
        let _ = write!(
            event,
            "{closing}],\"created\":{},\"id\":\"{}\",\"model\":\"{}\",\"system_fingerprint\":\"{BUILD}\",\"object\":\"{object}\"}}\n\n",
            self.created, self.id, self.model
        );
        chunk(out, &event);
    }

    fn object(&self, choices: &Value, object: &str, facts: bool) -> Value {
        let object = if self.chat { object } else { "text_completion" };
        let mut answer = json!({
            "choices": choices, "created": self.created, "id": self.id, "model": self.model,
            "system_fingerprint": BUILD, "object": object,
        });
        if facts {
            answer["usage"] = json!({
                "prompt_tokens": self.prompt, "completion_tokens": self.tokens,
                "total_tokens": self.prompt as u64 + self.tokens, "prompt_tokens_details": {"cached_tokens": 0},
            });
            answer["timings"] = json!({
                "cache_n": 0, "prompt_n": self.prompt, "prompt_ms": 1.0, "prompt_per_token_ms": 0.1,
                "prompt_per_second": 10000.0, "predicted_n": self.tokens, "predicted_ms": 10.0,
                "predicted_per_token_ms": 1.0, "predicted_per_second": 1000.0,
            });
        }
        answer
    }
}

fn data(out: &mut Vec<u8>, payload: &str) {
    chunk(out, format!("data: {payload}\n\n").as_bytes());
}

fn chunk(out: &mut Vec<u8>, event: &[u8]) {
    let _ = write!(out, "{:x}\r\n", event.len());
    out.extend_from_slice(event);
    out.extend_from_slice(b"\r\n");
}

/// A number that the prompt asks for in `mock(…)`.
fn wish(body: &[u8], name: &str) -> Option<u64> {
    let start = memmem::find(body, b"mock(")? + 5;
    let end = start + memchr::memchr(b')', &body[start..])?;
    let wishes = std::str::from_utf8(&body[start..end]).ok()?;
    wishes.split(',').filter_map(|pair| pair.split_once('=')).find(|(key, _)| key.trim() == name)?.1.trim().parse().ok()
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
