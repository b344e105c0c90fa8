//! One JSON body, written when the answer is complete: the object that a stream would end with.
use super::stream::Stream;
use crate::chat::{Event, Fault};
use crate::dialect::Encode;

/// The writer of a body.
pub(super) struct Body {
    stream: Stream,
    scratch: Vec<u8>,
    failed: bool,
}

impl Body {
    pub fn new(stream: Stream) -> Self {
        Self { stream, scratch: Vec::new(), failed: false }
    }
}

impl Encode for Body {
    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn event(&mut self, event: &Event<'_>, now_ns: u64, out: &mut Vec<u8>) {
        self.scratch.clear();
        self.stream.event(event, now_ns, &mut self.scratch);
        if matches!(event, Event::End) && !self.failed {
            out.extend_from_slice(self.stream.object());
        }
    }

    fn fault(&mut self, _fault: &Fault, _now_ns: u64, _out: &mut Vec<u8>) {
        self.failed = true;
    }

    fn keep_alive(&mut self, _now_ns: u64, _out: &mut Vec<u8>) {}

    fn document(&self) -> &[u8] {
        self.stream.document()
    }
}
