//! Who goes next, and who may ask for how much. Synchronous, without a clock: the caller tells the time and is told whom to
//! wake.
mod fair;
mod queue;
mod quota;
mod room;

pub use fair::Share;
pub use queue::{Class, Entry, Lane, Queue, Ticket};
pub use quota::{Budget, Limits, Refusal};
