//! What can go wrong between an engine and a client, by kind; Python maps each kind to one `blazar_code`.
use std::borrow::Cow;

/// The kind of a failure; `as_str` is its stable name across the Python boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The engine refused the request as wrong (its 400).
    BadRequest,
    /// More prompt than context.
    PromptTooLong,
    /// The engine does not have what was asked for (its 501).
    Unsupported,
    /// The engine is not ready or has no room (its 503).
    Unavailable,
    /// The engine answered something that is no answer, or an error of its own (its 500).
    BadGateway,
    /// The engine's connection ended before the answer did.
    Cut,
    /// The engine was silent for too long.
    Timeout,
    /// The engine's process died.
    Crashed,
    /// A fault of ours.
    Internal,
}

impl FaultKind {
    const ALL: [Self; 9] = [
        Self::BadRequest,
        Self::PromptTooLong,
        Self::Unsupported,
        Self::Unavailable,
        Self::BadGateway,
        Self::Cut,
        Self::Timeout,
        Self::Crashed,
        Self::Internal,
    ];

    /// From its stable name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::PromptTooLong => "prompt_too_long",
            Self::Unsupported => "unsupported",
            Self::Unavailable => "unavailable",
            Self::BadGateway => "bad_gateway",
            Self::Cut => "cut",
            Self::Timeout => "timeout",
            Self::Crashed => "crashed",
            Self::Internal => "internal",
        }
    }
}

/// A failure with its sentence, and the two numbers where the kind is [`FaultKind::PromptTooLong`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// One sentence for a person.
    pub message: String,
    /// The `blazar_code` that the client reads: the kind's own, or the one that Python gave.
    pub code: Cow<'static, str>,
    /// HTTP status that this failure has before a stream begins.
    pub status: u16,
    /// Tokens of the prompt.
    pub tokens: Option<u64>,
    /// Tokens that the context holds.
    pub context: Option<u64>,
}

impl Fault {
    /// A failure without numbers.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        let (code, status) = match kind {
            FaultKind::BadRequest | FaultKind::Unsupported => ("BAD_REQUEST", 400),
            FaultKind::PromptTooLong => ("PROMPT_TOO_LONG", 400),
            FaultKind::Unavailable => ("ALL_SLOTS_BUSY", 503),
            FaultKind::BadGateway | FaultKind::Cut => ("BAD_GATEWAY", 502),
            FaultKind::Timeout => ("GATEWAY_TIMEOUT", 504),
            FaultKind::Crashed => ("ENGINE_CRASHED", 502),
            FaultKind::Internal => ("INTERNAL", 500),
        };
        Self { kind, message: message.into(), code: Cow::Borrowed(code), status, tokens: None, context: None }
    }
}
