//! Server-sent events, one chunk for each step.
use super::{response, words};
use crate::chat::{Event, Fault, Finish, Request, Shape, TokenLogprob};
use crate::dialect::write::{escaped, int, string};
use crate::dialect::{Encode, Route, Stamp, common};

/// The writer of a stream.
pub(super) struct Stream {
    route: Route,
    /// `data: {…,` before `choices`.
    head: Vec<u8>,
    /// The head, up to the first choice's index.
    first: Vec<u8>,
    /// Between a choice's index and its visible text.
    before_text: &'static [u8],
    /// From the quote after a text to the end of its frame.
    after_text: Vec<u8>,
    /// From the brace that closes a choice to the end of its frame.
    tail: &'static [u8],
    include_usage: bool,
    logprobs: bool,
    stamp: String,
    shape: Shape,
    echo: response::Echo,
    choices: Vec<Choice>,
    over: bool,
}

/// What must be remembered of one choice.
#[derive(Default)]
struct Choice {
    /// Text that waits for its log probabilities.
    held: String,
    /// What came last was no visible text, so that log probabilities that follow are not of the answer.
    hidden: bool,
    called: bool,
    /// The open call has had arguments.
    argued: bool,
    /// The open call's arguments, where they must be unwrapped as a whole.
    custom: Option<String>,
    /// Characters written before, for `text_offset`.
    offset: u64,
}

impl Stream {
    pub fn new(route: Route, request: &Request, stamp: Stamp) -> Self {
        let mut head = b"data: ".to_vec();
        head.extend_from_slice(&words::head(route, true, &request.model, &stamp));
        let first = [&head[..], b"\"choices\":[{\"index\":"].concat();
        let tail: &[u8] = if request.include_usage { b"}],\"usage\":null}\n\n" } else { b"}]}\n\n" };
        let (before_text, closing): (&'static [u8], &[u8]) = if route == Route::OpenaiText {
            (b",\"text\":\"", b"\",\"logprobs\":null,\"finish_reason\":null")
        } else {
            (b",\"delta\":{\"content\":\"", b"\"},\"logprobs\":null,\"finish_reason\":null")
        };
        Self {
            route,
            first,
            head,
            before_text,
            after_text: [closing, tail].concat(),
            tail,
            include_usage: request.include_usage,
            logprobs: request.logprobs.is_some(),
            stamp: stamp.id,
            shape: request.shape.clone(),
            echo: response::Echo::new(request),
            choices: (0..request.answers()).map(|_| Choice::default()).collect(),
            over: false,
        }
    }

    fn open(&self, choice: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first);
        int(choice, out);
    }

    fn text(&self, choice: u32, text: &str, out: &mut Vec<u8>) {
        self.open(choice, out);
        out.extend_from_slice(self.before_text);
        escaped(text, out);
        out.extend_from_slice(&self.after_text);
    }

    /// A chunk whose delta `write` fills.
    fn delta(&self, choice: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.open(choice, out);
        out.extend_from_slice(b",\"delta\":{");
        write(out);
        out.extend_from_slice(b"},\"logprobs\":null,\"finish_reason\":null");
        out.extend_from_slice(self.tail);
    }

    /// Text that waited for log probabilities which did not come.
    fn release(&mut self, choice: u32, out: &mut Vec<u8>) {
        let Some(state) = self.choices.get_mut(choice as usize) else { return };
        if !state.held.is_empty() {
            let held = std::mem::take(&mut state.held);
            self.text(choice, &held, out);
        }
    }

    fn measured(&mut self, choice: u32, tokens: &[TokenLogprob], out: &mut Vec<u8>) {
        let Some(state) = self.choices.get_mut(choice as usize) else { return };
        if state.hidden || tokens.is_empty() {
            return;
        }
        let held = std::mem::take(&mut state.held);
        let offset = state.offset;
        self.open(choice, out);
        out.extend_from_slice(self.before_text);
        escaped(&held, out);
        out.extend_from_slice(if self.route == Route::OpenaiText { b"\",\"logprobs\":" } else { b"\"},\"logprobs\":" });
        if self.route == Route::OpenaiText {
            self.choices[choice as usize].offset = words::text_logprobs(tokens, offset, out);
        } else {
            words::chat_logprobs(tokens, out);
        }
        out.extend_from_slice(b",\"finish_reason\":null");
        out.extend_from_slice(self.tail);
    }

    fn started(&mut self, choice: u32, out: &mut Vec<u8>) {
        if self.route != Route::OpenaiText {
            self.delta(choice, out, |out| {
                out.extend_from_slice(b"\"role\":\"assistant\",\"content\":\"\",\"refusal\":null");
            });
        } else if !self.echo.of(choice).is_empty() {
            self.text(choice, self.echo.of(choice), out);
        }
    }

    fn call_started(&mut self, choice: u32, call: u32, id: &str, name: &str, out: &mut Vec<u8>) {
        let Some(state) = self.choices.get_mut(choice as usize) else { return };
        state.called = true;
        state.argued = false;
        let custom = self.shape.custom_tools.iter().any(|tool| tool == name);
        state.custom = custom.then(String::new);
        if self.shape.legacy_functions {
            // The old form knows one call.
            if call == 0 {
                self.delta(choice, out, |out| {
                    out.extend_from_slice(b"\"function_call\":{\"name\":");
                    string(name, out);
                    out.extend_from_slice(b",\"arguments\":\"\"}");
                });
            }
            return;
        }
        self.delta(choice, out, |out| {
            out.extend_from_slice(b"\"tool_calls\":[{\"index\":");
            int(call, out);
            out.extend_from_slice(b",\"id\":");
            words::call_id(id, &self.stamp, choice, call, out);
            let (kind, last): (&[u8], &[u8]) = if custom {
                (b",\"type\":\"custom\",\"custom\":{\"name\":", b",\"input\":\"\"}}]")
            } else {
                (b",\"type\":\"function\",\"function\":{\"name\":", b",\"arguments\":\"\"}}]")
            };
            out.extend_from_slice(kind);
            string(name, out);
            out.extend_from_slice(last);
        });
    }

    fn call_arguments(&mut self, choice: u32, call: u32, text: &str, out: &mut Vec<u8>) {
        let Some(state) = self.choices.get_mut(choice as usize) else { return };
        state.argued |= !text.is_empty();
        if let Some(custom) = &mut state.custom {
            custom.push_str(text);
        } else {
            self.fragment(choice, call, text, false, out);
        }
    }

    fn fragment(&self, choice: u32, call: u32, text: &str, custom: bool, out: &mut Vec<u8>) {
        if self.shape.legacy_functions {
            if call == 0 {
                self.delta(choice, out, |out| {
                    out.extend_from_slice(b"\"function_call\":{\"arguments\":");
                    string(text, out);
                    out.push(b'}');
                });
            }
            return;
        }
        self.delta(choice, out, |out| {
            out.extend_from_slice(b"\"tool_calls\":[{\"index\":");
            int(call, out);
            out.extend_from_slice(if custom {
                b",\"type\":\"custom\",\"custom\":{\"input\":" as &[u8]
            } else {
                b",\"function\":{\"arguments\":"
            });
            string(text, out);
            out.extend_from_slice(b"}}]");
        });
    }

    fn call_ended(&mut self, choice: u32, call: u32, out: &mut Vec<u8>) {
        let Some(state) = self.choices.get_mut(choice as usize) else { return };
        let argued = state.argued;
        match state.custom.take() {
            Some(arguments) => self.fragment(choice, call, &common::custom_input(&arguments), true, out),
            // An empty string is no JSON; clients parse what they have gathered.
            None if !argued => self.fragment(choice, call, "{}", false, out),
            None => {}
        }
    }

    fn finished(&self, choice: u32, reason: Finish, out: &mut Vec<u8>) {
        let called = self.choices.get(choice as usize).is_some_and(|state| state.called);
        self.open(choice, out);
        out.extend_from_slice(if self.route == Route::OpenaiText { b",\"text\":\"\"" } else { b",\"delta\":{}" });
        out.extend_from_slice(b",\"logprobs\":null,\"finish_reason\":\"");
        out.extend_from_slice(words::finish(Some(reason), self.route, called, self.shape.legacy_functions).as_bytes());
        out.push(b'"');
        out.extend_from_slice(self.tail);
    }

    fn hide(&mut self, choice: u32, hidden: bool) {
        if let Some(state) = self.choices.get_mut(choice as usize) {
            state.hidden = hidden;
        }
    }

    fn chat(&self) -> bool {
        self.route != Route::OpenaiText
    }
}

impl Encode for Stream {
    fn content_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }

    fn event(&mut self, event: &Event<'_>, _now_ns: u64, out: &mut Vec<u8>) {
        if self.over {
            return;
        }
        match event {
            Event::Text { choice, text } if !self.logprobs => self.text(*choice, text, out),
            Event::Text { choice, text } => {
                self.release(*choice, out);
                if let Some(state) = self.choices.get_mut(*choice as usize) {
                    state.held.push_str(text);
                    state.hidden = false;
                }
            }
            Event::Logprobs { choice, tokens } => {
                if self.logprobs {
                    self.measured(*choice, tokens, out);
                }
            }
            Event::Start { choice } => self.started(*choice, out),
            Event::Reasoning { choice, text } if self.chat() => {
                self.release(*choice, out);
                self.hide(*choice, true);
                self.delta(*choice, out, |out| {
                    // Half of the clients read the one word, half the other.
                    out.extend_from_slice(b"\"reasoning_content\":");
                    string(text, out);
                    out.extend_from_slice(b",\"reasoning\":");
                    string(text, out);
                });
            }
            Event::CallStart { choice, call, id, name } if self.chat() => {
                self.release(*choice, out);
                self.hide(*choice, true);
                self.call_started(*choice, *call, id, name, out);
            }
            Event::CallArguments { choice, call, text } if self.chat() => {
                self.call_arguments(*choice, *call, text, out);
            }
            Event::CallEnd { choice, call } if self.chat() => self.call_ended(*choice, *call, out),
            Event::Finish { choice, reason, .. } => {
                self.release(*choice, out);
                self.finished(*choice, *reason, out);
            }
            Event::Usage { usage, .. } if self.include_usage => {
                out.extend_from_slice(&self.head);
                out.extend_from_slice(b"\"choices\":[],\"usage\":");
                words::usage(*usage, out);
                out.extend_from_slice(b"}\n\n");
            }
            Event::End => {
                self.over = true;
                out.extend_from_slice(b"data: [DONE]\n\n");
            }
            // Text completions have no place for these.
            Event::Reasoning { choice, .. } | Event::CallStart { choice, .. } => {
                self.release(*choice, out);
                self.hide(*choice, true);
            }
            Event::CallArguments { .. } | Event::CallEnd { .. } | Event::Usage { .. } | Event::Progress { .. } => {}
        }
    }

    fn fault(&mut self, fault: &Fault, _now_ns: u64, out: &mut Vec<u8>) {
        if !self.over {
            for choice in (0_u32..).take(self.choices.len()) {
                self.release(choice, out);
            }
            self.over = true;
            out.extend_from_slice(b"data: ");
            words::fault(fault, out);
            out.extend_from_slice(b"\n\n");
        }
    }

    fn keep_alive(&mut self, _now_ns: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b": ping\n\n");
    }
}
