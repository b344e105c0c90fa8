//! Tool calls that a model wrote as text. Small models answer with the bare JSON of a call, with or without the marks that
//! their template asks for, and engines pass on as text what they do not recognise: a client would never see the call.
//!
//! Only an answer that begins like a call to one of the offered tools is held back, and what turns out to be none is given
//! on as it came.
use crate::chat::{Prompt, Request, ToolChoice};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Longer calls are not waited for.
const MOST: usize = 256 * 1024;
/// What models write before a call.
const OPENERS: [&str; 3] = ["<tool_call>", "```json", "```"];
/// What may stand between calls and after the last.
const BETWEEN: [&str; 8] = ["<tool_call>", "</tool_call>", "```json", "```", ",", ";", "<|im_end|>", "</s>"];
/// The first keys of a call's object.
const KEYS: [&str; 5] = ["name", "arguments", "parameters", "function", "type"];

/// What the request allows to be called.
#[derive(Debug)]
pub(super) struct Spoken {
    names: Vec<String>,
    /// A call must come: whatever follows it is noise.
    required: bool,
    only_one: bool,
}

/// The text of one choice that may be a call.
#[derive(Debug, Default)]
pub(super) struct Held {
    text: String,
    passing: bool,
}

/// A call that was found: its name, and its arguments as JSON text.
pub(super) type Found = (String, String);

#[derive(PartialEq)]
enum Verdict {
    /// It may be a call.
    Wait,
    /// It is none.
    Pass,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default, alias = "parameters")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function: Option<Box<Call<'a>>>,
}

impl Spoken {
    /// For a request that offers tools; `None` for any other.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let offered = |name: &str| match &request.tool_choice {
            ToolChoice::None => false,
            ToolChoice::Named(only) => only == name,
            ToolChoice::Auto | ToolChoice::Required => true,
        };
        let names: Vec<_> = request.tools.iter().map(|tool| tool.name.clone()).filter(|name| offered(name)).collect();
        let chat = matches!(request.prompt, Prompt::Chat(_)) || request.template.is_some();
        (chat && !names.is_empty()).then(|| Self {
            names,
            required: matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_)),
            only_one: request.parallel_tool_calls == Some(false),
        })
    }

    /// A piece of text comes; what is to be given on now.
    pub(super) fn hear<'t>(&self, held: &mut Held, piece: &'t str) -> Cow<'t, str> {
        if held.passing {
            return Cow::Borrowed(piece);
        }
        held.text.push_str(piece);
        if held.text.len() <= MOST && self.begins(&held.text) == Verdict::Wait {
            return Cow::Borrowed("");
        }
        Cow::Owned(held.release())
    }

    /// The call that had to come is complete, and what came after it is noise: there is nothing to wait for.
    pub(super) fn enough(&self, held: &Held) -> bool {
        if !self.required || held.text.is_empty() {
            return false;
        }
        let mut rest = skip(&held.text);
        let mut any = false;
        while let Some((_, end)) = first(rest) {
            any = true;
            rest = skip(&rest[end..]);
        }
        let more = rest.is_empty() || rest.starts_with(['{', '[']) || BETWEEN.iter().any(|mark| mark.starts_with(rest));
        any && !more && !self.calls(held).is_empty()
    }

    /// The answer is complete: the calls that the held text consists of, if it does.
    pub(super) fn calls(&self, held: &Held) -> Vec<Found> {
        let mut found = Vec::new();
        let mut rest = held.text.as_str();
        loop {
            rest = skip(rest);
            if rest.is_empty() {
                break;
            }
            let Some((said, end)) = first(rest) else {
                if self.required {
                    break;
                }
                return Vec::new();
            };
            for call in said {
                match self.read(call) {
                    Some(call) => found.push(call),
                    None => return Vec::new(),
                }
            }
            rest = &rest[end..];
        }
        if self.only_one {
            found.truncate(1);
        }
        found
    }

    fn read(&self, call: Call<'_>) -> Option<Found> {
        let call = call.function.map_or(Some(Call { function: None, ..call }), |inner| Some(*inner))?;
        let name = call.name.filter(|name| self.names.iter().any(|known| known == name))?;
        let arguments = match call.arguments.map(RawValue::get) {
            None | Some("null") => "{}".to_owned(),
            Some(text) if text.starts_with('{') => text.to_owned(),
            // JSON inside a string, as OpenAI's history has it.
            Some(text) => serde_json::from_str::<String>(text).ok().filter(|inner| inner.trim().starts_with('{'))?,
        };
        Some((name.into_owned(), arguments))
    }

    fn begins(&self, text: &str) -> Verdict {
        let mut rest = text.trim_start();
        for opener in OPENERS {
            if opener.starts_with(rest) {
                return Verdict::Wait;
            }
            if let Some(after) = rest.strip_prefix(opener) {
                rest = after.trim_start();
                break;
            }
        }
        rest = rest.strip_prefix('[').map_or(rest, str::trim_start);
        if rest.is_empty() {
            return Verdict::Wait;
        }
        let Some(inside) = rest.strip_prefix('{').map(str::trim_start) else {
            return Verdict::Pass;
        };
        let (key, after) = match string(inside) {
            Ok(found) => found,
            Err(part) => return KEYS.iter().any(|key| key.starts_with(part)).into(),
        };
        if key != "name" {
            return KEYS.contains(&key).into();
        }
        let value = after.trim_start();
        let value = value.strip_prefix(':').map_or(value, str::trim_start);
        match string(value) {
            Ok((name, _)) => self.names.iter().any(|known| known == name).into(),
            Err(part) => self.names.iter().any(|known| known.starts_with(part)).into(),
        }
    }
}

impl Held {
    /// Nothing is held back any more; what was.
    pub(super) fn release(&mut self) -> String {
        self.passing = true;
        std::mem::take(&mut self.text)
    }
}

impl From<bool> for Verdict {
    fn from(may_be: bool) -> Self {
        if may_be { Self::Wait } else { Self::Pass }
    }
}

/// A string's inside and what follows it, or as much of it as there is. Names have no escapes; anything that is no string
/// is like a name that nothing has.
fn string(text: &str) -> Result<(&str, &str), &str> {
    match text.strip_prefix('"') {
        Some(inside) => inside.split_once('"').ok_or(inside),
        None if text.is_empty() => Err(""),
        None => Ok(("\0", text)),
    }
}

/// The call, or the list of calls, that `text` begins with, and where it ends.
fn first(text: &str) -> Option<(Vec<Call<'_>>, usize)> {
    let json = serde_json::Deserializer::from_str(text);
    if text.starts_with('[') {
        let mut lists = json.into_iter::<Vec<Call<'_>>>();
        return Some((lists.next()?.ok()?, lists.byte_offset()));
    }
    let mut calls = json.into_iter::<Call<'_>>();
    Some((vec![calls.next()?.ok()?], calls.byte_offset()))
}

fn skip(text: &str) -> &str {
    let mut rest = text.trim();
    while let Some(after) = BETWEEN.iter().find_map(|mark| rest.strip_prefix(mark)) {
        rest = after.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests;
