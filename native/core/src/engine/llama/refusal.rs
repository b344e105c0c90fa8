//! Engines' errors, whichever of the usual shapes they have.
use crate::chat::{Fault, FaultKind};
use serde_json::Value;

/// The most characters of an engine's own text that a client sees.
const MAX_TEXT: usize = 600;

/// The fault that an answer with a status other than 200 is.
pub(super) fn from_body(status: u16, body: &[u8]) -> Fault {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => from_value(Some(status), &value),
        Err(_) => classify(Some(status), "", &plain(body), None),
    }
}

/// The fault that an `error` inside a stream is; `value` is the error itself or an object around it.
pub(super) fn from_value(status: Option<u16>, value: &Value) -> Fault {
    let error = match value.get("error") {
        Some(inner @ (Value::Object(_) | Value::String(_))) => inner,
        _ => value,
    };
    let text = |key: &str| error.get(key).and_then(Value::as_str);
    let message = error.as_str().or_else(|| text("message")).or_else(|| text("detail")).unwrap_or_default();
    let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let count = |key: &str| error.get(key).and_then(Value::as_u64);
    let numbers = count("n_prompt_tokens").zip(count("n_ctx"));
    classify(status.or(code), text("type").unwrap_or_default(), message, numbers)
}

fn classify(status: Option<u16>, kind: &str, message: &str, numbers: Option<(u64, u64)>) -> Fault {
    if kind == "exceed_context_size_error" {
        let sentence = match numbers {
            Some((tokens, context)) => {
                format!("The prompt has {tokens} tokens, and the model's context holds {context}.")
            }
            None => "The prompt has more tokens than the model's context holds.".to_owned(),
        };
        let mut fault = Fault::new(FaultKind::PromptTooLong, sentence);
        (fault.tokens, fault.context) = (numbers.map(|pair| pair.0), numbers.map(|pair| pair.1));
        return fault;
    }
    let lacking = message.contains("input is not supported");
    let template = message.contains("Jinja") || message.contains("jinja template");
    let kind = match status {
        Some(501) => FaultKind::Unsupported,
        Some(400..=599) if lacking => FaultKind::Unsupported,
        Some(400 | 413 | 422) => FaultKind::BadRequest,
        Some(500) if template => FaultKind::BadRequest,
        Some(503) => FaultKind::Unavailable,
        _ => FaultKind::BadGateway,
    };
    let message = tidy(message);
    let sentence = if message.contains("[json.exception") {
        // The text of the engine's JSON library helps nobody.
        "The engine could not read the request.".to_owned()
    } else if message.contains("does not match the expected peg") {
        "The model's answer does not have the form that was asked for, and the engine cannot read it.".to_owned()
    } else if !message.is_empty() {
        message
    } else {
        status.map_or_else(
            || "The engine reported an error without saying which.".to_owned(),
            |status| format!("The engine answered with status {status} and no message."),
        )
    };
    Fault::new(kind, sentence)
}

/// A body that is no JSON: short plain text is kept, markup is not.
fn plain(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * MAX_TEXT)]);
    let text = text.trim();
    if text.starts_with('<') { String::new() } else { text.to_owned() }
}

/// One line of bounded length.
fn tidy(text: &str) -> String {
    let mut line: String = text.trim().chars().take(MAX_TEXT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.trim().chars().nth(MAX_TEXT).is_some() {
        line.push_str(" ...");
    }
    line
}
