//! What every dialect's request means.
use crate::admission::Lane;
use serde_json::value::RawValue;

/// Text of more tokens than this, without the model's own end, is long work.
const LONG: u32 = 512;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions (`developer` too).
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

/// One piece of a turn, in the order in which it was said.
#[derive(Debug, Clone)]
pub enum Part {
    /// Plain text.
    Text(String),
    /// An image that came with the request, still base64.
    Image { mime: String, base64: String },
    /// An image that lies elsewhere; it must be brought before an engine is asked.
    Link(String),
    /// Sound that came with the request, still base64; `format` as in `wav` or `mp3`.
    Audio { format: String, base64: String },
    /// The model's own earlier reasoning.
    Reasoning { text: String, signature: Option<String> },
    /// A tool call that the model made; `arguments` is JSON text, checked to be an object.
    Call { id: String, name: String, arguments: String },
    /// What a tool answered to the call `id`.
    Result { id: String, name: Option<String>, text: String, is_error: bool },
}

/// One message.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Who.
    pub role: Role,
    /// What.
    pub parts: Vec<Part>,
}

/// Tokens that an answer without a bound is expected to have at most.
const UNBOUNDED: u64 = 1024;
/// Tokens of a picture, or of some seconds of sound.
const MEDIA: u64 = 768;

/// What the model is given.
#[derive(Debug, Clone)]
pub enum Prompt {
    /// Messages, for the model's own template.
    Chat(Vec<Turn>),
    /// Text as it is, without template.
    Text { prompt: String, suffix: Option<String>, echo: bool },
    /// Tokens as they are.
    Tokens(Vec<u32>),
    /// Several texts without suffix, or lists of tokens, each with answers of its own.
    Several(Vec<Prompt>),
}

/// Sampling parameters; `None` leaves the engine's (or the model's) own.
#[derive(Debug, Clone, Default)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: Option<f64>,
    /// Nucleus.
    pub top_p: Option<f64>,
    /// 0 turns it off.
    pub top_k: Option<i64>,
    /// Least share of the likeliest token's probability.
    pub min_p: Option<f64>,
    /// Locally typical sampling.
    pub typical_p: Option<f64>,
    /// 1 turns it off.
    pub repeat_penalty: Option<f64>,
    /// Tokens that `repeat_penalty` looks back on; -1 is the whole context.
    pub repeat_last_n: Option<i64>,
    /// OpenAI's.
    pub presence_penalty: Option<f64>,
    /// OpenAI's.
    pub frequency_penalty: Option<f64>,
    /// -1 is random.
    pub seed: Option<i64>,
    /// Token id to bias, as the client's JSON.
    pub logit_bias: Option<Box<RawValue>>,
    /// Mirostat mode, tau, eta.
    pub mirostat: Option<(i64, Option<f64>, Option<f64>)>,
    /// A GBNF grammar (llama.cpp's own extension).
    pub grammar: Option<String>,
}

impl Sampling {
    /// The same request has the same answer, as far as an engine can give it: nothing is drawn at random, or by a seed.
    pub fn is_determined(&self) -> bool {
        self.temperature == Some(0.0) || self.top_k == Some(1) || self.seed.is_some_and(|seed| seed >= 0)
    }

    /// What is said here, else what `other` says.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            temperature: self.temperature.or(other.temperature),
            top_p: self.top_p.or(other.top_p),
            top_k: self.top_k.or(other.top_k),
            min_p: self.min_p.or(other.min_p),
            typical_p: self.typical_p.or(other.typical_p),
            repeat_penalty: self.repeat_penalty.or(other.repeat_penalty),
            repeat_last_n: self.repeat_last_n.or(other.repeat_last_n),
            presence_penalty: self.presence_penalty.or(other.presence_penalty),
            frequency_penalty: self.frequency_penalty.or(other.frequency_penalty),
            seed: self.seed.or(other.seed),
            logit_bias: self.logit_bias.or_else(|| other.logit_bias.clone()),
            mirostat: self.mirostat.or(other.mirostat),
            grammar: self.grammar.or_else(|| other.grammar.clone()),
        }
    }
}

/// A function that the model may call.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of the arguments, as the client's JSON.
    pub parameters: Option<Box<RawValue>>,
    /// The arguments must follow the schema.
    pub strict: bool,
}

/// Whether tools are called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// The shape that the answer must have.
#[derive(Debug, Clone, Default)]
pub enum Format {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    Json,
    /// JSON that follows a schema.
    Schema { name: String, schema: Box<RawValue>, strict: bool },
}

/// How hard to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkLevel {
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// Whether to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Think {
    /// As the model does by itself.
    #[default]
    Default,
    /// Not at all.
    Off,
    /// With a level and a token budget, where given.
    On { level: Option<ThinkLevel>, budget: Option<u32> },
}

/// How long the model stays in memory after this request, with Ollama's meaning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeepAlive {
    /// So many seconds; 0 unloads at once.
    Seconds(f64),
    /// For ever.
    Forever,
}

/// What the answer's writer must know of the request, and no engine needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    /// The client offered OpenAI's old `functions`, and reads calls as `function_call`.
    pub legacy_functions: bool,
    /// Names of OpenAI's `custom` tools. Engines see them as functions of one string, `input`.
    pub custom_tools: Vec<String>,
    /// The client wants thinking without its text (Anthropic's `display: "omitted"`).
    pub omit_thinking: bool,
    /// Types of tools that the client offered and nobody here can run; they were left out.
    pub dropped_tools: Vec<String>,
    /// The conversation as JSON, for a client that is given it back with the answer (Ollama's `context`).
    pub said: Option<String>,
    /// Set where the answer is one of OpenAI's responses.
    pub response: Option<Box<ResponseShape>>,
}

/// How a response of OpenAI's Responses API is written and kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseShape {
    /// The object's members that repeat the request, each with a comma before it.
    pub echo: String,
    /// Reasoning is shown as a summary.
    pub summary: bool,
    /// Reasoning is also given sealed, for a client that keeps the conversation itself.
    pub encrypted: bool,
    /// It is kept, to be fetched or gone on from.
    pub store: bool,
    /// It goes on without its client.
    pub background: bool,
    /// The response that it goes on from.
    pub previous: Option<String>,
    /// The conversation begins with instructions, which hold for this request only.
    pub instructed: bool,
    /// The input's items, a JSON array on one line.
    pub items: String,
}

/// One request for text, whichever dialect it came in.
#[derive(Debug, Clone)]
pub struct Request {
    /// The model's name as the client wrote it; answers echo it.
    pub model: String,
    /// What to answer.
    pub prompt: Prompt,
    /// A template in Ollama's language that is used instead of the model's own.
    pub template: Option<String>,
    /// What may be called.
    pub tools: Vec<Tool>,
    /// Whether it must be.
    pub tool_choice: ToolChoice,
    /// Several calls at once.
    pub parallel_tool_calls: Option<bool>,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// What holds where neither the client nor the model says how: the dialect's own.
    pub defaults: Sampling,
    /// Most tokens to generate; `None` is up to the context.
    pub max_tokens: Option<u32>,
    /// Sequences that end the answer; never empty strings.
    pub stop: Vec<String>,
    /// The answer's shape.
    pub format: Format,
    /// Reasoning.
    pub think: Think,
    /// `Some(k)`: log probabilities, with k alternatives each.
    pub logprobs: Option<u8>,
    /// How many answers.
    pub n: u32,
    /// Whether the client reads a stream.
    pub stream: bool,
    /// Whether an OpenAI stream ends with a usage chunk.
    pub include_usage: bool,
    /// How long the model stays.
    pub keep_alive: Option<KeepAlive>,
    /// The context that the client asks for, in tokens.
    pub num_ctx: Option<u32>,
    /// The client asks only that the model be loaded (or unloaded): an empty prompt in Ollama's dialect.
    pub load_only: bool,
    /// How the answer is written.
    pub shape: Shape,
    /// The place of the engine that it is put in, where somebody chose.
    pub seat: Option<u32>,
}

impl Request {
    /// About how many tokens the prompt and the answer may come to, of a body of `body_bytes`: a token for four bytes of
    /// text, a fixed number for each picture or sound, and [`UNBOUNDED`] for each answer that has no bound.
    pub fn cost(&self, body_bytes: usize) -> (u64, u64) {
        let (mut media, mut encoded) = (0_u64, 0_usize);
        if let Prompt::Chat(turns) = &self.prompt {
            for part in turns.iter().flat_map(|turn| &turn.parts) {
                if let Part::Image { base64, .. } | Part::Audio { base64, .. } = part {
                    media += 1;
                    encoded += base64.len();
                }
            }
        }
        let text = body_bytes.saturating_sub(encoded).div_ceil(4) as u64;
        let answer = self.max_tokens.map_or(UNBOUNDED, u64::from);
        (text + media * MEDIA, answer.saturating_mul(u64::from(self.answers())))
    }

    /// How many answers there are in all: `n` for each prompt, those of the first prompt first.
    pub fn answers(&self) -> u32 {
        let prompts = match &self.prompt {
            Prompt::Several(prompts) => u32::try_from(prompts.len()).unwrap_or(u32::MAX),
            _ => 1,
        };
        self.n.max(1).saturating_mul(prompts.max(1))
    }

    /// Which lane of the queue it takes.
    pub fn lane(&self) -> Lane {
        let raw = !matches!(self.prompt, Prompt::Chat(_) | Prompt::Text { suffix: Some(_), .. });
        if !self.tools.is_empty() {
            Lane::Tools
        } else if raw && self.template.is_none() && self.max_tokens.is_none_or(|most| most > LONG) {
            Lane::Long
        } else {
            Lane::Chat
        }
    }

    /// Whether an answer without a call is wrong.
    pub fn must_call(&self) -> bool {
        matches!(self.tool_choice, ToolChoice::Required | ToolChoice::Named(_)) && !self.tools.is_empty()
    }

    /// Tools whose arguments must follow their schema: the strict ones, and those of which one must be called.
    pub fn shaped_tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().filter(|tool| match &self.tool_choice {
            ToolChoice::None => false,
            ToolChoice::Named(name) => tool.name == *name,
            ToolChoice::Required => true,
            ToolChoice::Auto => tool.strict,
        })
    }

    /// Whether there are such.
    pub fn shapes_calls(&self) -> bool {
        self.shaped_tools().next().is_some()
    }

    /// A request that leaves everything to the defaults: one answer, as free text, not streamed.
    pub fn new(model: impl Into<String>, prompt: Prompt) -> Self {
        Self {
            model: model.into(),
            prompt,
            template: None,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: None,
            sampling: Sampling::default(),
            defaults: Sampling::default(),
            max_tokens: None,
            stop: Vec::new(),
            format: Format::Text,
            think: Think::Default,
            logprobs: None,
            n: 1,
            stream: false,
            include_usage: false,
            keep_alive: None,
            num_ctx: None,
            load_only: false,
            shape: Shape::default(),
            seat: None,
        }
    }
}
