//! One JSON body, written when the answer is complete.
use super::words;
use crate::chat::{Event, Fault, Finish, Request, Think};
use crate::dialect::gather::{Call, Choice, Gathered, Piece};
use crate::dialect::write::{list, string};
use crate::dialect::{Encode, Stamp, common};

/// The writer of a body.
pub(super) struct Body {
    head: Vec<u8>,
    stamp: String,
    /// Whether the client reads thinking, and whether with its text.
    thinks: bool,
    omits: bool,
    most: Option<u32>,
    gathered: Gathered,
}

impl Body {
    pub fn new(request: &Request, stamp: Stamp) -> Self {
        Self {
            head: words::head(&request.model, &stamp),
            stamp: stamp.id,
            thinks: request.think != Think::Off,
            omits: request.shape.omit_thinking,
            most: request.max_tokens,
            gathered: Gathered::new(1),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let none = Choice::default();
        let choice = self.gathered.choices.first().unwrap_or(&none);
        out.extend_from_slice(&self.head);
        let shown = choice.pieces.iter().filter(|piece| match piece {
            // Lines between thinking and calls: a block of these alone would be refused when it is sent back.
            Piece::Text(text) => !text.trim().is_empty(),
            Piece::Reasoning(_) | Piece::Call(_) => true,
        });
        list((0_u32..).zip(shown), out, |(index, piece), out| self.block(index, piece, out));
        out.push(b',');
        let called = choice.calls().next().is_some();
        let stop = choice.stop.as_deref();
        let reason = choice.finish.unwrap_or(Finish::Stop);
        words::stops(words::stop_reason(reason, stop, called, self.most, self.gathered.usage), stop, out);
        out.extend_from_slice(b",\"usage\":");
        words::usage(self.gathered.usage.unwrap_or_default(), out);
        out.push(b'}');
    }

    fn block(&self, index: u32, piece: &Piece, out: &mut Vec<u8>) {
        match piece {
            Piece::Reasoning(text) => {
                out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":");
                string(if self.omits { "" } else { text }, out);
                out.extend_from_slice(b",\"signature\":\"");
                words::signature(&self.stamp, index, out);
                out.extend_from_slice(b"\"}");
            }
            Piece::Text(text) => {
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                string(text, out);
                out.push(b'}');
            }
            Piece::Call(call) => self.call(call, out),
        }
    }

    /// Broken arguments are wrapped, under the key that Anthropic's documentation names for it.
    fn call(&self, call: &Call, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"tool_use\",\"id\":");
        words::call_id(&call.id, &self.stamp, call.call, out);
        out.extend_from_slice(b",\"name\":");
        string(&call.name, out);
        out.extend_from_slice(b",\"input\":");
        if let Some(arguments) = common::whole_arguments(&call.arguments) {
            out.extend_from_slice(arguments.as_bytes());
        } else {
            out.extend_from_slice(b"{\"INVALID_JSON\":");
            string(&call.arguments, out);
            out.push(b'}');
        }
        out.push(b'}');
    }
}

impl Encode for Body {
    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn event(&mut self, event: &Event<'_>, _now_ns: u64, out: &mut Vec<u8>) {
        if matches!(event, Event::Reasoning { .. }) && !self.thinks {
            return;
        }
        if self.gathered.event(event) {
            self.write(out);
        }
    }

    fn fault(&mut self, _fault: &Fault, _now_ns: u64, _out: &mut Vec<u8>) {
        self.gathered.failed = true;
    }

    fn keep_alive(&mut self, _now_ns: u64, _out: &mut Vec<u8>) {}
}
