//! Lines of JSON, one for each step.
use super::words::{self, Account};
use crate::chat::{Event, Fault, Finish, Request, TokenLogprob};
use crate::dialect::gather::Call;
use crate::dialect::write::{escaped, string};
use crate::dialect::{Encode, Route, Stamp, common};

/// The writer of a stream.
pub(super) struct Stream {
    chat: bool,
    stamp: String,
    /// `{"model":…,"created_at":`
    head: Vec<u8>,
    /// Between the time and the visible text, with its opening quote.
    before_text: &'static [u8],
    /// From the quote after a text to the end of its line.
    after_text: &'static [u8],
    logprobs: bool,
    /// Text that waits for its log probabilities.
    held: String,
    /// What came last was no visible text, so that log probabilities that follow are not of the answer.
    hidden: bool,
    /// Calls whose arguments are still coming.
    open: Vec<Call>,
    /// A complete call whose arguments are no object: it was cut off, or the model erred; the reason will tell.
    broken: Option<String>,
    failed: Option<Fault>,
    account: Account,
    /// All of the text, where it is given back at the end.
    answer: String,
    over: bool,
}

impl Stream {
    pub fn new(route: Route, request: &Request, stamp: Stamp) -> Self {
        let chat = route == Route::OllamaChat;
        let mut head = b"{\"model\":".to_vec();
        string(&request.model, &mut head);
        head.extend_from_slice(b",\"created_at\":");
        let (before_text, after_text): (&[u8], &[u8]) = if chat {
            (b",\"message\":{\"role\":\"assistant\",\"content\":\"", b"\"},\"done\":false}\n")
        } else {
            (b",\"response\":\"", b"\",\"done\":false}\n")
        };
        Self {
            chat,
            stamp: stamp.id.clone(),
            head,
            before_text,
            after_text,
            logprobs: request.logprobs.is_some(),
            held: String::new(),
            hidden: false,
            open: Vec::new(),
            broken: None,
            failed: None,
            account: Account::new(request, stamp),
            answer: String::new(),
            over: false,
        }
    }

    fn open(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        self.account.time(now_ns, out);
        out.extend_from_slice(self.before_text);
    }

    fn text(&mut self, text: &str, now_ns: u64, out: &mut Vec<u8>) {
        self.open(now_ns, out);
        escaped(text, out);
        out.extend_from_slice(self.after_text);
    }

    /// Text that waited for log probabilities which did not come.
    fn release(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.text(&held, now_ns, out);
        }
    }

    fn measured(&mut self, tokens: &[TokenLogprob], now_ns: u64, out: &mut Vec<u8>) {
        if self.hidden || tokens.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        self.open(now_ns, out);
        escaped(&held, out);
        out.extend_from_slice(if self.chat { b"\"}" } else { b"\"" });
        words::logprobs(tokens, out);
        out.extend_from_slice(b",\"done\":false}\n");
    }

    fn reasoning(&mut self, text: &str, now_ns: u64, out: &mut Vec<u8>) {
        self.open(now_ns, out);
        out.extend_from_slice(b"\",\"thinking\":\"");
        escaped(text, out);
        out.extend_from_slice(self.after_text);
    }

    fn call_ended(&mut self, number: u32, now_ns: u64, out: &mut Vec<u8>) {
        let Some(at) = self.open.iter().position(|call| call.call == number) else { return };
        let call = self.open.swap_remove(at);
        let Some(arguments) = common::whole_arguments(&call.arguments) else {
            self.broken.get_or_insert(call.name);
            return;
        };
        self.open(now_ns, out);
        out.extend_from_slice(b"\",\"tool_calls\":[");
        words::call(&call, &arguments, &self.stamp, out);
        out.push(b']');
        out.extend_from_slice(&self.after_text[1..]);
    }

    fn finished(&mut self, reason: Finish, out: &mut Vec<u8>) {
        match self.broken.take() {
            Some(name) if reason != Finish::Length => {
                self.over = true;
                let fault = words::broken(&name);
                words::fault(&fault, out);
                out.push(b'\n');
                self.failed = Some(fault);
            }
            _ => {}
        }
    }
}

impl Encode for Stream {
    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn event(&mut self, event: &Event<'_>, now_ns: u64, out: &mut Vec<u8>) {
        if self.over {
            return;
        }
        match event {
            Event::Text { choice: 0, text } => {
                self.account.piece(now_ns);
                if self.account.remembers() {
                    self.answer.push_str(text);
                }
                if self.logprobs {
                    self.release(now_ns, out);
                    self.held.push_str(text);
                    self.hidden = false;
                } else {
                    self.text(text, now_ns, out);
                }
            }
            Event::Reasoning { choice: 0, text } => {
                self.account.piece(now_ns);
                self.release(now_ns, out);
                self.hidden = true;
                self.reasoning(text, now_ns, out);
            }
            Event::CallStart { choice: 0, call, id, name } => {
                self.account.piece(now_ns);
                self.release(now_ns, out);
                self.hidden = true;
                self.open.push(Call {
                    call: *call,
                    id: id.clone().into_owned(),
                    name: name.clone().into_owned(),
                    arguments: String::new(),
                });
            }
            Event::CallArguments { choice: 0, call, text } => {
                self.account.piece(now_ns);
                if let Some(open) = self.open.iter_mut().find(|open| open.call == *call) {
                    open.arguments.push_str(text);
                }
            }
            Event::CallEnd { choice: 0, call } => self.call_ended(*call, now_ns, out),
            Event::Logprobs { choice: 0, tokens } if self.logprobs => self.measured(tokens, now_ns, out),
            Event::Finish { choice: 0, reason, .. } => {
                self.release(now_ns, out);
                self.account.note(event);
                self.finished(*reason, out);
            }
            Event::Usage { .. } => self.account.note(event),
            Event::End => {
                self.over = true;
                self.open(now_ns, out);
                out.extend_from_slice(if self.chat { b"\"}," } else { b"\"," });
                self.account.last(&self.answer, now_ns, out);
                out.extend_from_slice(b"}\n");
            }
            _ => {}
        }
    }

    fn fault(&mut self, fault: &Fault, now_ns: u64, out: &mut Vec<u8>) {
        if !self.over {
            self.release(now_ns, out);
            self.over = true;
            words::fault(fault, out);
            out.push(b'\n');
        }
    }

    /// An empty line is no JSON to Ollama's own client; a line that says nothing is.
    fn keep_alive(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        if !self.over {
            self.text("", now_ns, out);
        }
    }

    fn broken(&self) -> Option<&Fault> {
        self.failed.as_ref()
    }
}
