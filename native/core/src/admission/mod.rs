//! Who goes next. Synchronous, without a clock: the caller tells the time and is told whom to wake.
mod queue;

pub use queue::{Class, Entry, Lane, Queue, Ticket};
