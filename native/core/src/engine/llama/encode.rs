//! The waist's request to the engine's body.
//!
//! The engine is always asked to stream: it notices a client that leaves an unstreamed answer too late.
use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::chat::{
    Fault, FaultKind, Format, Part, Prompt, Request, Role, Sampling, Think, ThinkLevel, ToolChoice, Turn,
};
use crate::engine::Outbound;

/// `repeat_last_n` that stands for the whole context, where the client says -1: newer builds take no negative number.
const WHOLE_CONTEXT: i64 = 8192;

/// The body that generates.
pub fn generate(request: &Request, alias: &str) -> Result<Outbound, Fault> {
    let path = match request.prompt {
        Prompt::Chat(_) => "/v1/chat/completions",
        Prompt::Text { .. } | Prompt::Tokens(_) => "/v1/completions",
    };
    Ok(Outbound { path, body: json(&Body::new(request, alias)?)? })
}

/// The body that counts the prompt's tokens.
pub fn count(request: &Request, alias: &str) -> Result<Outbound, Fault> {
    let mut body = Body::new(request, alias)?;
    (body.stream, body.stream_options) = (false, None);
    Ok(Outbound { path: "/v1/chat/completions/input_tokens", body: json(&body)? })
}

fn json<T: Serialize>(body: &T) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(body).map_err(|error| Fault::new(FaultKind::Internal, error.to_string()))
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Message<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<RawPrompt<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    cache_prompt: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "is_one")]
    n: u32,
    #[serde(flatten)]
    sampling: Drawing<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Logprobs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<u8>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Function<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_template_kwargs: Option<TemplateArguments>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget_tokens: Option<u32>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RawPrompt<'a> {
    Text(&'a str),
    Tokens(&'a [u32]),
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Chat takes a switch, plain completion a number.
#[derive(Serialize)]
#[serde(untagged)]
enum Logprobs {
    On(bool),
    Top(u8),
}

#[derive(Serialize, Default)]
struct Drawing<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    typical_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_last_n: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logit_bias: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirostat: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirostat_tau: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mirostat_eta: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grammar: Option<&'a str>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: Url },
    InputAudio { input_audio: Sound<'a> },
}

#[derive(Serialize)]
struct Url {
    url: String,
}

#[derive(Serialize)]
struct Sound<'a> {
    data: &'a str,
    format: &'a str,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Function<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionShape<'a>,
}

#[derive(Serialize)]
struct FunctionShape<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: Parameters<'a>,
}

/// The engine wants a schema even where the client gave none.
#[derive(Serialize)]
#[serde(untagged)]
enum Parameters<'a> {
    Given(&'a RawValue),
    Empty(EmptyObject),
}

#[derive(Serialize)]
struct EmptyObject {
    #[serde(rename = "type")]
    kind: &'static str,
    properties: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: Schema<'a> },
}

#[derive(Serialize)]
struct Schema<'a> {
    name: &'a str,
    schema: &'a RawValue,
    strict: bool,
}

#[derive(Serialize)]
struct TemplateArguments {
    enable_thinking: bool,
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

impl<'a> Body<'a> {
    fn new(request: &'a Request, alias: &'a str) -> Result<Self, Fault> {
        let chat = matches!(request.prompt, Prompt::Chat(_));
        let (messages, prompt) = match &request.prompt {
            Prompt::Chat(turns) => (Some(turns.iter().flat_map(messages).collect::<Vec<_>>()), None),
            Prompt::Text { suffix: Some(_), .. } => {
                return Err(Fault::new(FaultKind::Unsupported, "this engine completes no text before a suffix here"));
            }
            Prompt::Text { prompt, .. } => (None, Some(RawPrompt::Text(prompt))),
            Prompt::Tokens(tokens) => (None, Some(RawPrompt::Tokens(tokens))),
        };
        let prefilled = messages.as_ref().and_then(|list| list.last()).is_some_and(|last| last.role == "assistant");
        // The engine refuses to think in the middle of an answer that the client began.
        let think = if prefilled { Think::Off } else { request.think };
        let (effort, budget) = match think {
            Think::On { level, budget } => (level.map(effort), budget),
            Think::Off | Think::Default => (None, None),
        };
        let tools = tools(request);
        let offered = !tools.is_empty();
        Ok(Self {
            model: alias,
            messages,
            prompt,
            stream: true,
            stream_options: Some(StreamOptions { include_usage: true }),
            cache_prompt: true,
            max_tokens: request.max_tokens,
            stop: &request.stop,
            n: request.n.max(1),
            sampling: Drawing::of(&request.sampling),
            logprobs: request.logprobs.map(|top| if chat { Logprobs::On(true) } else { Logprobs::Top(top.max(1)) }),
            // Without a number the engine would send twenty.
            top_logprobs: request.logprobs.filter(|_| chat).map(|top| top.max(1)),
            tool_choice: offered.then_some(match request.tool_choice {
                ToolChoice::Auto => "auto",
                ToolChoice::None => "none",
                // The engine does not know a named choice; with the other tools left out it comes to the same.
                ToolChoice::Required | ToolChoice::Named(_) => "required",
            }),
            parallel_tool_calls: offered.then_some(request.parallel_tool_calls.unwrap_or(true)),
            tools,
            response_format: match &request.format {
                Format::Text => None,
                // The engine refuses a grammar beside tools.
                Format::Json | Format::Schema { .. } if offered => None,
                Format::Json => Some(ResponseFormat::JsonObject),
                Format::Schema { name, schema, strict } => {
                    Some(ResponseFormat::JsonSchema { json_schema: Schema { name, schema, strict: *strict } })
                }
            },
            chat_template_kwargs: match think {
                Think::Default => None,
                Think::Off => Some(TemplateArguments { enable_thinking: false }),
                Think::On { .. } => Some(TemplateArguments { enable_thinking: true }),
            }
            .filter(|_| chat),
            reasoning_effort: effort,
            thinking_budget_tokens: budget,
        })
    }
}

impl<'a> Drawing<'a> {
    fn of(sampling: &'a Sampling) -> Self {
        let (mirostat, tau, eta) =
            sampling.mirostat.map_or((None, None, None), |(mode, tau, eta)| (Some(mode), tau, eta));
        Self {
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            top_k: sampling.top_k,
            min_p: sampling.min_p,
            typical_p: sampling.typical_p,
            repeat_penalty: sampling.repeat_penalty,
            repeat_last_n: sampling.repeat_last_n.map(|n| if n < 0 { WHOLE_CONTEXT } else { n }),
            presence_penalty: sampling.presence_penalty,
            frequency_penalty: sampling.frequency_penalty,
            seed: sampling.seed,
            logit_bias: sampling.logit_bias.as_deref(),
            mirostat,
            mirostat_tau: tau,
            mirostat_eta: eta,
            grammar: sampling.grammar.as_deref(),
        }
    }
}

fn effort(level: ThinkLevel) -> &'static str {
    match level {
        ThinkLevel::Low => "low",
        ThinkLevel::Medium => "medium",
        ThinkLevel::High => "high",
    }
}

fn tools(request: &Request) -> Vec<Function<'_>> {
    if request.tool_choice == ToolChoice::None {
        return Vec::new();
    }
    let named = match &request.tool_choice {
        ToolChoice::Named(name) => Some(name),
        _ => None,
    };
    let wanted = request.tools.iter().filter(|tool| named.is_none_or(|name| *name == tool.name));
    wanted
        .map(|tool| Function {
            kind: "function",
            function: FunctionShape {
                name: &tool.name,
                description: tool.description.as_deref(),
                parameters: tool.parameters.as_deref().map_or_else(
                    || Parameters::Empty(EmptyObject { kind: "object", properties: serde_json::Map::new() }),
                    Parameters::Given,
                ),
            },
        })
        .collect()
}

/// One turn is one message, except that each tool result is a message of its own.
fn messages(turn: &Turn) -> Vec<Message<'_>> {
    let mut found: Vec<Message<'_>> = turn.parts.iter().filter_map(result).collect();
    let rest: Vec<&Part> = turn.parts.iter().filter(|part| !matches!(part, Part::Result { .. })).collect();
    if !rest.is_empty() || found.is_empty() {
        found.push(message(turn.role, &rest));
    }
    found
}

fn result(part: &Part) -> Option<Message<'_>> {
    let Part::Result { id, name, text, is_error } = part else { return None };
    let text = match is_error {
        true if !text.starts_with("Error") => Cow::Owned(format!("Error: {text}")),
        _ => Cow::Borrowed(text.as_str()),
    };
    Some(Message {
        role: "tool",
        content: Some(Content::Text(text)),
        reasoning_content: None,
        tool_calls: Vec::new(),
        tool_call_id: Some(id),
        name: name.as_deref(),
    })
}

fn message<'a>(role: Role, parts: &[&'a Part]) -> Message<'a> {
    let calls: Vec<ToolCall<'a>> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Call { id, name, arguments } => {
                Some(ToolCall { id, kind: "function", function: CalledFunction { name, arguments } })
            }
            _ => None,
        })
        .collect();
    let reasoning = joined(parts.iter().filter_map(|part| match part {
        Part::Reasoning { text, .. } => Some(text.as_str()),
        _ => None,
    }));
    Message {
        role: match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        },
        content: Some(content(parts)),
        reasoning_content: reasoning,
        tool_calls: calls,
        tool_call_id: None,
        name: None,
    }
}

/// Text alone is a string, since some templates know nothing else.
fn content<'a>(parts: &[&'a Part]) -> Content<'a> {
    let only_text = !parts.iter().any(|part| matches!(part, Part::Image { .. } | Part::Audio { .. }));
    if only_text {
        let texts = parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        return Content::Text(joined(texts).unwrap_or_default());
    }
    Content::Parts(
        parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(Piece::Text { text }),
                Part::Image { mime, base64 } => {
                    Some(Piece::ImageUrl { image_url: Url { url: format!("data:{mime};base64,{base64}") } })
                }
                Part::Audio { format, base64 } => {
                    Some(Piece::InputAudio { input_audio: Sound { data: base64, format } })
                }
                _ => None,
            })
            .collect(),
    )
}

/// Several texts become one, line by line; a single one is not copied.
fn joined<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<Cow<'a, str>> {
    let first = texts.next()?;
    let Some(second) = texts.next() else { return Some(Cow::Borrowed(first)) };
    let mut whole = format!("{first}\n{second}");
    for text in texts {
        whole.push('\n');
        whole.push_str(text);
    }
    Some(Cow::Owned(whole))
}
