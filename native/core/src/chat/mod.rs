//! The waist: every dialect's request becomes a [`Request`], every engine's answer becomes a sequence of [`Event`]s, and
//! nothing translates directly from one to another.
mod event;
mod fault;
mod likeness;
mod request;
mod seating;
pub mod volatile;

pub use event::{Event, Finish, Timings, TokenLogprob, Usage};
pub use fault::{Fault, FaultKind};
pub use likeness::Likeness;
pub use request::{
    Format, KeepAlive, Part, Prompt, Request, ResponseShape, Role, Sampling, Shape, Think, ThinkLevel, Tool,
    ToolChoice, Turn,
};
pub use seating::Seating;
