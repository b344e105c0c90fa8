//! Server-sent events in Anthropic's order: one message, its blocks one after the other, its end.
use super::words;
use crate::chat::{Event, Fault, Finish, Request, Think, Usage};
use crate::dialect::write::{escaped, int, string};
use crate::dialect::{Encode, Stamp};

/// The writer of a stream.
pub(super) struct Stream {
    /// `{"id":…,"content":`
    head: Vec<u8>,
    stamp: String,
    thinks: bool,
    omits: bool,
    most: Option<u32>,
    /// Prompt tokens as far as they are known when the message starts.
    prompt: u64,
    begun: bool,
    over: bool,
    open: Open,
    /// Of the block that is open, or of the last that was.
    index: u32,
    blocks: u32,
    /// White space that becomes part of a text block if anything visible follows.
    held: String,
    called: bool,
    /// Pieces so far: what is known of the output's length where the engine does not count.
    pieces: u64,
    finish: Finish,
    stop: Option<String>,
    usage: Option<Usage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    None,
    Thinking,
    Text,
    Call(u32),
}

impl Stream {
    pub fn new(request: &Request, stamp: Stamp) -> Self {
        Self {
            head: words::head(&request.model, &stamp),
            stamp: stamp.id,
            thinks: request.think != Think::Off,
            omits: request.shape.omit_thinking,
            most: request.max_tokens,
            prompt: words::estimate(request),
            begun: false,
            over: false,
            open: Open::None,
            index: 0,
            blocks: 0,
            held: String::new(),
            called: false,
            pieces: 0,
            finish: Finish::Stop,
            stop: None,
            usage: None,
        }
    }

    fn start(&mut self, out: &mut Vec<u8>) {
        if self.begun {
            return;
        }
        self.begun = true;
        out.extend_from_slice(b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
        words::usage(Usage { prompt: self.prompt, completion: 1, ..Usage::default() }, out);
        out.extend_from_slice(b"}}\n\n");
        out.extend_from_slice(PING);
    }

    /// End the open block, begin one of `kind` whose shell `write` fills.
    fn begin(&mut self, kind: Open, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.close(out);
        self.open = kind;
        self.index = self.blocks;
        self.blocks += 1;
        out.extend_from_slice(b"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":");
        int(self.index, out);
        out.extend_from_slice(b",\"content_block\":");
        write(out);
        out.extend_from_slice(b"}\n\n");
    }

    fn delta(&self, before: &[u8], text: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":");
        int(self.index, out);
        out.extend_from_slice(before);
        escaped(text, out);
        out.extend_from_slice(b"\"}}\n\n");
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.open == Open::None {
            return;
        }
        if self.open == Open::Thinking {
            out.extend_from_slice(b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":");
            int(self.index, out);
            out.extend_from_slice(b",\"delta\":{\"type\":\"signature_delta\",\"signature\":\"");
            words::signature(&self.stamp, self.index, out);
            out.extend_from_slice(b"\"}}\n\n");
        }
        self.open = Open::None;
        out.extend_from_slice(b"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":");
        int(self.index, out);
        out.extend_from_slice(b"}\n\n");
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        if self.open != Open::Text {
            if text.trim_start().is_empty() {
                self.held.push_str(text);
                return;
            }
            self.begin(Open::Text, out, |out| out.extend_from_slice(b"{\"type\":\"text\",\"text\":\"\"}"));
            if !self.held.is_empty() {
                let held = std::mem::take(&mut self.held);
                self.delta(TEXT, &held, out);
            }
        }
        self.delta(TEXT, text, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut Vec<u8>) {
        if !self.thinks {
            return;
        }
        if self.open != Open::Thinking || !self.held.is_empty() {
            self.held.clear();
            self.begin(Open::Thinking, out, |out| {
                out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
            });
        }
        if !self.omits {
            self.delta(b",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"", text, out);
        }
    }

    fn call(&mut self, call: u32, id: &str, name: &str, out: &mut Vec<u8>) {
        self.called = true;
        self.held.clear();
        let mut shell = b"{\"type\":\"tool_use\",\"id\":".to_vec();
        words::call_id(id, &self.stamp, call, &mut shell);
        shell.extend_from_slice(b",\"name\":");
        string(name, &mut shell);
        shell.extend_from_slice(b",\"input\":{}}");
        self.begin(Open::Call(call), out, |out| out.extend_from_slice(&shell));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.close(out);
        out.extend_from_slice(b"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{");
        let stop = self.stop.as_deref();
        words::stops(words::stop_reason(self.finish, stop, self.called, self.most, self.usage), stop, out);
        out.extend_from_slice(b"},\"usage\":");
        let counted = Usage { prompt: self.prompt, completion: self.pieces, ..Usage::default() };
        words::usage(self.usage.unwrap_or(counted), out);
        out.extend_from_slice(b"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    }
}

const PING: &[u8] = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";
const TEXT: &[u8] = b",\"delta\":{\"type\":\"text_delta\",\"text\":\"";

impl Encode for Stream {
    fn content_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }

    fn event(&mut self, event: &Event<'_>, _now_ns: u64, out: &mut Vec<u8>) {
        if self.over {
            return;
        }
        match event {
            Event::Text { choice: 0, text } => {
                self.pieces += 1;
                self.text(text, out);
            }
            Event::Reasoning { choice: 0, text } => {
                self.pieces += 1;
                self.reasoning(text, out);
            }
            Event::CallStart { choice: 0, call, id, name } => {
                self.pieces += 1;
                self.call(*call, id, name, out);
            }
            Event::CallArguments { choice: 0, call, text } => {
                self.pieces += 1;
                if self.open == Open::Call(*call) {
                    self.delta(b",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"", text, out);
                }
            }
            Event::CallEnd { choice: 0, call } if self.open == Open::Call(*call) => self.close(out),
            Event::Start { choice: 0 } => self.start(out),
            Event::Finish { choice: 0, reason, stop } => {
                self.close(out);
                self.finish = *reason;
                self.stop = stop.as_ref().map(|stop| stop.clone().into_owned());
            }
            Event::Usage { usage, .. } => self.usage = Some(*usage),
            Event::Progress { total, .. } if !self.begun && *total > 0 => self.prompt = *total,
            Event::End => {
                self.start(out);
                self.end(out);
                self.over = true;
            }
            _ => {}
        }
    }

    fn fault(&mut self, fault: &Fault, _now_ns: u64, out: &mut Vec<u8>) {
        if !self.over {
            self.over = true;
            out.extend_from_slice(b"event: error\ndata: ");
            words::fault(fault, out);
            out.extend_from_slice(b"\n\n");
        }
    }

    /// Clients want nothing before the message's start; a comment is nothing.
    fn keep_alive(&mut self, _now_ns: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.begun { PING } else { b": ping\n\n" });
    }
}
