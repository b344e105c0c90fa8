//! Requests to llama-server's bodies.
use super::messages::{Message, messages};
use super::sampled::Sampled;
use crate::{
    chat::{Fault, FaultKind, Format, Prompt, Request, Think, ThinkLevel, Tool, ToolChoice, Turn},
    engine::Outbound,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// Prompts of more bytes than this have the engine tell how far it is: the wait may be long, and it is by writing that the
/// engine notices that nobody listens any more.
const LONG_PROMPT: usize = 512;
/// For the sampling parameters, and for the head of the HTTP request.
const ROOM: usize = 1536;
/// Of so few tokens, thinking that nobody asked for would leave nothing for the answer (agents' titles and the like).
const TINY: u32 = 64;

/// The body that generates.
pub fn generate(request: &Request, alias: &str) -> Result<Outbound, Fault> {
    match &request.prompt {
        Prompt::Chat(turns) => {
            let chat = Chat::new(request, turns, alias);
            outbound("/v1/chat/completions", &Generate { what: chat, how: Common::new(request) }, size(&request.prompt))
        }
        Prompt::Text { prompt, suffix: None, .. } => outbound(
            "/v1/completions",
            &Generate { what: Text::new(request, alias, prompt), how: Common::new(request) },
            size(&request.prompt),
        ),
        Prompt::Text { prompt, suffix: Some(suffix), .. } => {
            let what = Infill { input_prefix: prompt, input_suffix: suffix, prompt: "" };
            outbound("/infill", &Generate { what, how: Common::new(request) }, size(&request.prompt))
        }
        Prompt::Tokens(tokens) => outbound(
            "/v1/completions",
            &Generate { what: Text::new(request, alias, tokens), how: Common::new(request) },
            size(&request.prompt),
        ),
        Prompt::Several(prompts) => {
            let prompts: Vec<_> = prompts.iter().map(OnePrompt).collect();
            outbound(
                "/v1/completions",
                &Generate { what: Text::new(request, alias, &prompts), how: Common::new(request) },
                size(&request.prompt),
            )
        }
    }
}

/// The body that counts the prompt's tokens: chat's through the template, text's as it is (the answer to that is the
/// list of its tokens).
pub fn count(request: &Request, alias: &str) -> Result<Outbound, Fault> {
    match &request.prompt {
        Prompt::Chat(turns) => {
            outbound("/v1/chat/completions/input_tokens", &Chat::new(request, turns, alias), size(&request.prompt))
        }
        Prompt::Text { prompt, .. } => outbound(
            "/tokenize",
            &Tokenize { content: prompt, add_special: true, parse_special: true },
            size(&request.prompt),
        ),
        Prompt::Tokens(_) | Prompt::Several(_) => {
            Err(Fault::new(FaultKind::BadRequest, "The prompt is given as tokens already; their number is its length."))
        }
    }
}

/// `size` is about how many bytes it will be: a body of many megabytes is written where it stays, with room for the head
/// that comes before it.
fn outbound(path: &'static str, body: &impl Serialize, size: usize) -> Result<Outbound, Fault> {
    let mut bytes = Vec::with_capacity(ROOM + size + size / 32);
    match serde_json::to_writer(&mut bytes, body) {
        Ok(()) => Ok(Outbound { path, body: bytes }),
        Err(error) => {
            Err(Fault::new(FaultKind::Internal, format!("The engine's request could not be written: {error}.")))
        }
    }
}

/// Bytes of what lies in a prompt.
fn size(prompt: &Prompt) -> usize {
    use crate::chat::Part;
    match prompt {
        Prompt::Chat(turns) => turns
            .iter()
            .flat_map(|turn| &turn.parts)
            .map(|part| match part {
                Part::Image { base64, .. } | Part::Audio { base64, .. } => base64.len() + 64,
                Part::Link(text) | Part::Text(text) | Part::Reasoning { text, .. } | Part::Result { text, .. } => {
                    text.len()
                }
                Part::Call { arguments, .. } => arguments.len(),
            })
            .sum(),
        other => other.bytes(),
    }
}

#[derive(Serialize)]
struct Generate<'a, W: Serialize> {
    #[serde(flatten)]
    what: W,
    #[serde(flatten)]
    how: Common<'a>,
}

#[derive(Serialize)]
struct Infill<'a> {
    input_prefix: &'a str,
    input_suffix: &'a str,
    prompt: &'a str,
}

#[derive(Serialize)]
struct Tokenize<'a> {
    content: &'a str,
    add_special: bool,
    parse_special: bool,
}

/// One prompt of several.
struct OnePrompt<'a>(&'a Prompt);

impl Serialize for OnePrompt<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Prompt::Text { prompt, .. } => serializer.serialize_str(prompt),
            Prompt::Tokens(tokens) => serializer.collect_seq(tokens),
            Prompt::Chat(_) | Prompt::Several(_) => {
                Err(serde::ser::Error::custom("a prompt among several is text or tokens"))
            }
        }
    }
}

#[derive(Serialize)]
struct Text<'a, P: Serialize + ?Sized> {
    model: &'a str,
    prompt: &'a P,
    /// The text route has no `response_format`.
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<&'a RawValue>,
}

impl<'a, P: Serialize + ?Sized> Text<'a, P> {
    fn new(request: &'a Request, alias: &'a str, prompt: &'a P) -> Self {
        let json_schema = match &request.format {
            Format::Text => None,
            Format::Json => serde_json::from_str(r#"{"type":"object"}"#).ok(),
            Format::Schema { schema, .. } => Some(schema.as_ref()),
        };
        Self { model: alias, prompt, json_schema }
    }
}

#[derive(Serialize)]
struct Chat<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolOut<'a>>,
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
struct TemplateArguments {
    enable_thinking: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
}

#[derive(Serialize)]
struct ToolOut<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: Parameters<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Parameters<'a> {
    Schema(&'a RawValue),
    Nothing { r#type: &'static str, properties: Nothing },
}

#[derive(Serialize)]
struct Nothing {}

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

impl<'a> Chat<'a> {
    fn new(request: &'a Request, turns: &'a [Turn], alias: &'a str) -> Self {
        let messages = messages(turns);
        let (tools, tool_choice) = tools(request);
        let response_format = match &request.format {
            // Tools and a grammar of the format exclude each other in the engine.
            _ if !tools.is_empty() => None,
            Format::Text => None,
            Format::Json => Some(ResponseFormat::JsonObject),
            Format::Schema { name, schema, strict } => {
                let name = if name.is_empty() { "schema" } else { name };
                Some(ResponseFormat::JsonSchema { json_schema: Schema { name, schema, strict: *strict } })
            }
        };
        let (mut level, mut budget) = (None, None);
        let mut thinking = match request.think {
            Think::Default => request.max_tokens.is_some_and(|most| most <= TINY).then_some(false),
            Think::Off => Some(false),
            Think::On { level: asked, budget: most } => {
                level = asked.map(|level| match level {
                    ThinkLevel::Low => "low",
                    ThinkLevel::Medium => "medium",
                    ThinkLevel::High => "high",
                });
                budget = most;
                Some(true)
            }
        };
        if messages.last().is_some_and(Message::is_prefill) {
            // The engine refuses to go on with an answer while thinking is on, and it is on by default.
            (thinking, level, budget) = (Some(false), None, None);
        }
        Self {
            model: alias,
            messages,
            // Said outright, since builds differ in their default.
            parallel_tool_calls: (!tools.is_empty()).then(|| request.parallel_tool_calls.unwrap_or(true)),
            tools,
            tool_choice,
            response_format,
            chat_template_kwargs: thinking
                .map(|enable_thinking| TemplateArguments { enable_thinking, reasoning_effort: level }),
            reasoning_effort: level,
            thinking_budget_tokens: budget,
        }
    }
}

/// The tools that are offered, and how the engine is told to choose. It does not know a named choice: that is the one tool,
/// required.
fn tools(request: &Request) -> (Vec<ToolOut<'_>>, Option<&'static str>) {
    let wanted = |tool: &&Tool| match &request.tool_choice {
        ToolChoice::None => false,
        ToolChoice::Named(name) => tool.name == *name,
        ToolChoice::Auto | ToolChoice::Required => true,
    };
    let list: Vec<_> = request.tools.iter().filter(wanted).map(ToolOut::new).collect();
    let choice = match &request.tool_choice {
        _ if list.is_empty() => None,
        ToolChoice::Auto => Some("auto"),
        ToolChoice::None => None,
        ToolChoice::Required | ToolChoice::Named(_) => Some("required"),
    };
    (list, choice)
}

impl<'a> ToolOut<'a> {
    fn new(tool: &'a Tool) -> Self {
        let parameters = match tool.parameters.as_deref() {
            Some(schema) if !matches!(schema.get(), "null" | "{}") => Parameters::Schema(schema),
            _ => Parameters::Nothing { r#type: "object", properties: Nothing {} },
        };
        let function = Function { name: &tool.name, description: tool.description.as_deref(), parameters };
        Self { r#type: "function", function }
    }
}

/// What every generating route takes. Only what was asked for is written, so that the model's own defaults hold.
#[derive(Serialize)]
struct Common<'a> {
    stream: bool,
    stream_options: StreamOptions,
    cache_prompt: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_slot: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    return_progress: bool,
    /// Counts with each token, where the answer may be ended before the engine ends it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    timings_per_token: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(flatten)]
    which_stop: Option<WhichStop>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u32>,
    #[serde(flatten)]
    logprobs: Option<Logprobs>,
    #[serde(flatten)]
    sampling: Sampled<'a>,
}

/// OpenAI's shapes do not say which stop sequence fired; the engine's own shape beside them does, cut down to that.
#[derive(Serialize)]
struct WhichStop {
    verbose: bool,
    response_fields: [&'static str; 1],
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Logprobs {
    Chat { logprobs: bool, top_logprobs: u8 },
    Text { logprobs: u8 },
}

impl<'a> Common<'a> {
    fn new(request: &'a Request) -> Self {
        let chat = matches!(request.prompt, Prompt::Chat(_));
        let tools = chat && !tools(request).0.is_empty();
        // With 0 alternatives the engine tells nothing (and by default 20): the decoder strips the one asked for here.
        let logprobs = request.logprobs.map(|top| top.max(1)).map(|top| {
            if chat { Logprobs::Chat { logprobs: true, top_logprobs: top } } else { Logprobs::Text { logprobs: top } }
        });
        Self {
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            cache_prompt: true,
            id_slot: request.seat,
            timings_per_token: tools
                && matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_))
                && request.n <= 1,
            return_progress: request.prompt.bytes() > LONG_PROMPT,
            max_tokens: request.max_tokens,
            stop: &request.stop,
            // The route for infilling has that shape to begin with.
            which_stop: (!request.stop.is_empty() && !matches!(request.prompt, Prompt::Text { suffix: Some(_), .. }))
                .then_some(WhichStop { verbose: true, response_fields: ["stopping_word"] }),
            n: (request.n > 1).then_some(request.n),
            // The engine refuses log probabilities in a stream with tools.
            logprobs: logprobs.filter(|_| !tools),
            sampling: Sampled::new(&request.sampling, &request.defaults, request.num_ctx),
        }
    }
}

#[cfg(test)]
mod tests;
