//! Server-sent events of a response: numbered, each with its item, and whole objects at both ends.
use super::item::{Item, Kind, Shown, Status};
use super::words;
use crate::chat::{Event, Fault, Finish, Request, TokenLogprob, Usage};
use crate::dialect::write::{escaped, id as safe_id, int, string};
use crate::dialect::{Encode, Stamp, common};

/// The writer of a stream.
pub(super) struct Stream {
    /// `{"id":…,"model":…` and what repeats the request.
    head: Vec<u8>,
    stamp: String,
    created_ns: u64,
    started_ns: u64,
    shown: Shown,
    logprobs: bool,
    stores: bool,
    custom_tools: Vec<String>,
    number: u64,
    begun: bool,
    over: bool,
    /// What is done, as in the object's `output`.
    done: Vec<u8>,
    items: u32,
    open: Option<Item>,
    /// White space that becomes part of a message if anything visible follows.
    blank: String,
    finish: Finish,
    usage: Option<Usage>,
    /// The last object written.
    object: Vec<u8>,
}

impl Stream {
    pub fn new(request: &Request, stamp: Stamp) -> Self {
        let shape = request.shape.response.as_deref();
        let mut head = b"{\"id\":\"resp_".to_vec();
        escaped(&stamp.id, &mut head);
        head.extend_from_slice(b"\",\"object\":\"response\",\"created_at\":");
        crate::dialect::time::seconds(stamp.created_ns, &mut head);
        head.extend_from_slice(b",\"model\":");
        string(&request.model, &mut head);
        head.extend_from_slice(shape.map_or("", |shape| shape.echo.as_str()).as_bytes());
        Self {
            head,
            stamp: stamp.id,
            created_ns: stamp.created_ns,
            started_ns: stamp.started_ns,
            shown: Shown {
                summary: shape.is_some_and(|shape| shape.summary),
                encrypted: shape.is_some_and(|shape| shape.encrypted),
            },
            logprobs: request.logprobs.is_some(),
            stores: shape.is_some_and(|shape| shape.store),
            custom_tools: request.shape.custom_tools.clone(),
            number: 0,
            begun: false,
            over: false,
            done: Vec::new(),
            items: 0,
            open: None,
            blank: String::new(),
            finish: Finish::Stop,
            usage: None,
            object: Vec::new(),
        }
    }

    /// The object as it was last written.
    pub fn object(&self) -> &[u8] {
        &self.object
    }

    /// One event: its name twice, its number, and what `write` adds.
    fn frame(&mut self, name: &str, out: &mut Vec<u8>, write: impl FnOnce(&Self, &mut Vec<u8>)) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\ndata: {\"type\":\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\",\"sequence_number\":");
        int(self.number, out);
        self.number += 1;
        write(self, out);
        out.extend_from_slice(b"}\n\n");
    }

    fn whole(&mut self, name: &str, status: &str, fault: Option<&Fault>, now_ns: u64, out: &mut Vec<u8>) {
        let mut object = std::mem::take(&mut self.object);
        object.clear();
        object.extend_from_slice(&self.head);
        object.extend_from_slice(b",\"status\":\"");
        object.extend_from_slice(status.as_bytes());
        object.extend_from_slice(b"\",\"completed_at\":");
        if status == "completed" {
            let now = self.created_ns.saturating_add(now_ns.saturating_sub(self.started_ns));
            crate::dialect::time::seconds(now, &mut object);
        } else {
            object.extend_from_slice(b"null");
        }
        object.extend_from_slice(b",\"error\":");
        match fault {
            Some(fault) => words::error(fault, &mut object),
            None => object.extend_from_slice(b"null"),
        }
        object.extend_from_slice(b",\"incomplete_details\":");
        object.extend_from_slice(match (status, self.finish) {
            ("incomplete", Finish::ContentFilter) => b"{\"reason\":\"content_filter\"}" as &[u8],
            ("incomplete", _) => b"{\"reason\":\"max_output_tokens\"}",
            _ => b"null",
        });
        object.extend_from_slice(b",\"output\":[");
        object.extend_from_slice(&self.done);
        object.extend_from_slice(b"],\"usage\":");
        match self.usage {
            Some(usage) => words::usage(usage, &mut object),
            None => object.extend_from_slice(b"null"),
        }
        object.push(b'}');
        self.object = object;
        self.frame(name, out, |this, out| {
            out.extend_from_slice(b",\"response\":");
            out.extend_from_slice(&this.object);
        });
    }

    fn start(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        if !self.begun {
            self.begun = true;
            self.whole("response.created", "in_progress", None, now_ns, out);
            self.whole("response.in_progress", "in_progress", None, now_ns, out);
        }
    }

    fn begin(&mut self, kind: Kind, out: &mut Vec<u8>) {
        self.close(Status::Completed, out);
        let prefix = match kind {
            Kind::Reasoning => "rs",
            Kind::Message => "msg",
            Kind::Call { custom: false, .. } => "fc",
            Kind::Call { custom: true, .. } => "ctc",
        };
        let id = format!("{prefix}_{}{:02x}", self.stamp, self.items);
        let item = Item { id, kind, text: String::new(), logprobs: Vec::new(), held: String::new() };
        self.frame("response.output_item.added", out, |this, out| {
            this.index(out);
            out.extend_from_slice(b",\"item\":");
            this.shown.item(&item, Status::InProgress, out);
        });
        self.open = Some(item);
        match self.open.as_ref().map(|item| &item.kind) {
            Some(Kind::Reasoning) if self.shown.summary => self.part("response.reasoning_summary_part.added", out),
            Some(Kind::Message | Kind::Reasoning) => self.part("response.content_part.added", out),
            Some(Kind::Call { .. }) | None => {}
        }
    }

    fn index(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"output_index\":");
        int(self.items, out);
    }

    /// `,"item_id":…,"output_index":…` of the open item, and where in it.
    fn place(&self, out: &mut Vec<u8>) {
        let Some(item) = &self.open else { return };
        out.extend_from_slice(b",\"item_id\":");
        string(&item.id, out);
        self.index(out);
        out.extend_from_slice(match item.kind {
            Kind::Reasoning if self.shown.summary => b",\"summary_index\":0" as &[u8],
            Kind::Reasoning | Kind::Message => b",\"content_index\":0",
            Kind::Call { .. } => b"",
        });
    }

    fn part(&mut self, name: &str, out: &mut Vec<u8>) {
        self.frame(name, out, |this, out| {
            this.place(out);
            out.extend_from_slice(b",\"part\":");
            if let Some(item) = &this.open {
                this.shown.content(item, out);
            }
        });
    }

    fn delta(&mut self, name: &str, text: &str, tokens: Option<&[TokenLogprob]>, out: &mut Vec<u8>) {
        self.frame(name, out, |this, out| {
            this.place(out);
            out.extend_from_slice(b",\"delta\":");
            string(text, out);
            if let Some(tokens) = tokens {
                out.extend_from_slice(b",\"logprobs\":");
                words::logprobs(tokens, out);
            }
        });
    }

    /// End the open item.
    fn close(&mut self, mut status: Status, out: &mut Vec<u8>) {
        self.release(out);
        let Some(item) = &mut self.open else { return };
        match &item.kind {
            Kind::Message => {
                self.ended("response.output_text.done", "text", out);
                self.part("response.content_part.done", out);
            }
            Kind::Reasoning if self.shown.summary => {
                self.ended("response.reasoning_summary_text.done", "text", out);
                self.part("response.reasoning_summary_part.done", out);
            }
            Kind::Reasoning => {
                self.ended("response.reasoning_text.done", "text", out);
                self.part("response.content_part.done", out);
            }
            Kind::Call { custom: true, .. } => {
                let raw = std::mem::take(&mut item.text);
                item.text = common::custom_input(&raw);
                let text = item.text.clone();
                self.delta("response.custom_tool_call_input.delta", &text, None, out);
                self.ended("response.custom_tool_call_input.done", "input", out);
            }
            Kind::Call { ended, .. } => {
                // Only an answer that the limit cut can end within a call.
                let cut = !ended || common::whole_arguments(&item.text).is_none();
                if status == Status::Incomplete && !cut {
                    status = Status::Completed;
                }
                if item.text.is_empty() && status == Status::Completed {
                    // An empty string is no JSON; clients parse what they have gathered.
                    item.text.push_str("{}");
                    self.delta("response.function_call_arguments.delta", "{}", None, out);
                }
                self.ended("response.function_call_arguments.done", "arguments", out);
            }
        }
        let Some(item) = self.open.take() else { return };
        let mut shown = Vec::new();
        self.shown.item(&item, status, &mut shown);
        self.frame("response.output_item.done", out, |this, out| {
            this.index(out);
            out.extend_from_slice(b",\"item\":");
            out.extend_from_slice(&shown);
        });
        if !self.done.is_empty() {
            self.done.push(b',');
        }
        self.done.extend_from_slice(&shown);
        self.items += 1;
    }

    fn ended(&mut self, name: &str, key: &str, out: &mut Vec<u8>) {
        self.frame(name, out, |this, out| {
            this.place(out);
            let Some(item) = &this.open else { return };
            if let Kind::Call { name, .. } = &item.kind {
                out.extend_from_slice(b",\"name\":");
                string(name, out);
            }
            out.extend_from_slice(b",\"");
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":");
            string(&item.text, out);
            if item.kind == Kind::Message {
                out.extend_from_slice(b",\"logprobs\":");
                words::logprobs(&item.logprobs, out);
            }
        });
    }

    fn is_open(&self, kind: &Kind) -> bool {
        self.open.as_ref().is_some_and(|item| item.kind == *kind)
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        if !self.is_open(&Kind::Message) {
            if text.trim_start().is_empty() {
                self.blank.push_str(text);
                return;
            }
            self.begin(Kind::Message, out);
            if !self.blank.is_empty() {
                let blank = std::mem::take(&mut self.blank);
                self.say(&blank, out);
            }
        }
        self.say(text, out);
    }

    fn say(&mut self, text: &str, out: &mut Vec<u8>) {
        if self.logprobs {
            self.release(out);
            if let Some(item) = &mut self.open {
                item.held.push_str(text);
            }
        } else {
            self.said(text, &[], out);
        }
    }

    fn said(&mut self, text: &str, tokens: &[TokenLogprob], out: &mut Vec<u8>) {
        self.delta("response.output_text.delta", text, Some(tokens), out);
        if let Some(item) = &mut self.open {
            item.text.push_str(text);
            item.logprobs.extend_from_slice(tokens);
        }
    }

    /// Text that waited for log probabilities which did not come.
    fn release(&mut self, out: &mut Vec<u8>) {
        let held = self.open.as_mut().map(|item| std::mem::take(&mut item.held)).unwrap_or_default();
        if !held.is_empty() {
            self.said(&held, &[], out);
        }
    }

    fn measured(&mut self, tokens: &[TokenLogprob], out: &mut Vec<u8>) {
        if self.logprobs && self.is_open(&Kind::Message) {
            let held = self.open.as_mut().map(|item| std::mem::take(&mut item.held)).unwrap_or_default();
            self.said(&held, tokens, out);
        }
    }

    fn reasoning(&mut self, text: &str, out: &mut Vec<u8>) {
        self.blank.clear();
        if !self.is_open(&Kind::Reasoning) {
            self.begin(Kind::Reasoning, out);
        }
        let name =
            if self.shown.summary { "response.reasoning_summary_text.delta" } else { "response.reasoning_text.delta" };
        self.delta(name, text, None, out);
        if let Some(item) = &mut self.open {
            item.text.push_str(text);
        }
    }

    fn call(&mut self, number: u32, id: &str, name: &str, out: &mut Vec<u8>) {
        self.blank.clear();
        let mut call = Vec::new();
        if id.is_empty() {
            call.extend_from_slice(b"call_");
            escaped(self.stamp.get(..16).unwrap_or(&self.stamp), &mut call);
            int(number, &mut call);
        } else {
            safe_id(id, &mut call);
        }
        let call = String::from_utf8(call).unwrap_or_default();
        let custom = self.custom_tools.iter().any(|tool| tool == name);
        self.begin(Kind::Call { number, call, name: name.to_owned(), custom, ended: false }, out);
    }

    fn arguments(&mut self, number: u32, text: &str, out: &mut Vec<u8>) {
        let Some(Item { kind: Kind::Call { number: open, custom, .. }, text: all, .. }) = &mut self.open else {
            return;
        };
        if *open != number {
            return;
        }
        all.push_str(text);
        // A custom tool's text is known when its wrapping is whole.
        if !*custom {
            self.delta("response.function_call_arguments.delta", text, None, out);
        }
    }

    fn end(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        self.start(now_ns, out);
        let cut = matches!(self.finish, Finish::Length | Finish::ContentFilter);
        let status = if cut { Status::Incomplete } else { Status::Completed };
        if self.items == 0 && self.open.is_none() {
            // An answer of nothing is a message of nothing.
            self.begin(Kind::Message, out);
        }
        self.close(status, out);
        let name = if cut { "response.incomplete" } else { "response.completed" };
        self.whole(name, status.word(), None, now_ns, out);
    }
}

impl Encode for Stream {
    fn content_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }

    fn event(&mut self, event: &Event<'_>, now_ns: u64, out: &mut Vec<u8>) {
        if self.over {
            return;
        }
        match event {
            Event::Start { choice: 0 } => self.start(now_ns, out),
            Event::Text { choice: 0, text } => self.text(text, out),
            Event::Reasoning { choice: 0, text } => self.reasoning(text, out),
            Event::Logprobs { choice: 0, tokens } => self.measured(tokens, out),
            Event::CallStart { choice: 0, call, id, name } => self.call(*call, id, name, out),
            Event::CallArguments { choice: 0, call, text } => self.arguments(*call, text, out),
            Event::CallEnd { choice: 0, .. } => {
                if let Some(Item { kind: Kind::Call { ended, .. }, .. }) = &mut self.open {
                    *ended = true;
                }
            }
            Event::Finish { choice: 0, reason, .. } => self.finish = *reason,
            Event::Usage { usage, .. } => self.usage = Some(*usage),
            Event::End => {
                self.end(now_ns, out);
                self.over = true;
            }
            _ => {}
        }
    }

    fn fault(&mut self, fault: &Fault, now_ns: u64, out: &mut Vec<u8>) {
        if !self.over {
            self.start(now_ns, out);
            self.over = true;
            self.whole("response.failed", "failed", Some(fault), now_ns, out);
        }
    }

    fn keep_alive(&mut self, _now_ns: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b": ping\n\n");
    }

    fn document(&self) -> &[u8] {
        if self.over && self.stores { &self.object } else { &[] }
    }
}
