//! One JSON body, written when the answer is complete.
use super::words;
use crate::chat::{Event, Fault, Prompt, Request, Shape};
use crate::dialect::gather::{Call, Choice, Gathered};
use crate::dialect::write::{escaped, int, string};
use crate::dialect::{Encode, Route, Stamp, common};

/// The writer of a body.
pub(super) struct Body {
    route: Route,
    head: Vec<u8>,
    stamp: String,
    shape: Shape,
    logprobs: bool,
    /// What comes before the texts: the prompts, for `echo`.
    echo: Echo,
    gathered: Gathered,
}

impl Body {
    pub fn new(route: Route, request: &Request, stamp: Stamp) -> Self {
        Self {
            route,
            head: words::head(route, false, &request.model, &stamp),
            stamp: stamp.id,
            shape: request.shape.clone(),
            logprobs: request.logprobs.is_some(),
            echo: Echo::new(request),
            gathered: Gathered::new(request.answers()),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"\"choices\":[");
        for (index, choice) in (0_u32..).zip(&self.gathered.choices) {
            out.extend_from_slice(if index > 0 { b",{\"index\":" } else { b"{\"index\":" });
            int(index, out);
            if self.route == Route::OpenaiText {
                self.text(index, choice, out);
            } else {
                self.message(index, choice, out);
            }
            let called = choice.calls().next().is_some();
            out.extend_from_slice(b",\"finish_reason\":\"");
            let reason = words::finish(choice.finish, self.route, called, self.shape.legacy_functions);
            out.extend_from_slice(reason.as_bytes());
            out.extend_from_slice(b"\"}");
        }
        out.push(b']');
        if let Some(usage) = self.gathered.usage {
            out.extend_from_slice(b",\"usage\":");
            words::usage(usage, out);
        }
        out.push(b'}');
    }

    fn text(&self, index: u32, choice: &Choice, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"text\":\"");
        escaped(self.echo.of(index), out);
        choice.text().for_each(|text| escaped(text, out));
        out.extend_from_slice(b"\",\"logprobs\":");
        if self.logprobs {
            words::text_logprobs(&choice.logprobs, 0, out);
        } else {
            out.extend_from_slice(b"null");
        }
    }

    fn message(&self, index: u32, choice: &Choice, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"message\":{\"role\":\"assistant\",\"content\":");
        let calls: Vec<_> = choice.calls().collect();
        if calls.is_empty() || choice.text().next().is_some() {
            out.push(b'"');
            choice.text().for_each(|text| escaped(text, out));
            out.push(b'"');
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(b",\"refusal\":null");
        if choice.reasoning().next().is_some() {
            for key in [b",\"reasoning_content\":\"" as &[u8], b",\"reasoning\":\""] {
                out.extend_from_slice(key);
                choice.reasoning().for_each(|text| escaped(text, out));
                out.push(b'"');
            }
        }
        match calls.first() {
            Some(call) if self.shape.legacy_functions => {
                out.extend_from_slice(b",\"function_call\":{\"name\":");
                string(&call.name, out);
                arguments(call, out);
                out.push(b'}');
            }
            Some(_) => {
                out.extend_from_slice(b",\"tool_calls\":");
                crate::dialect::write::list(calls, out, |call, out| self.call(index, call, out));
            }
            None => {}
        }
        out.extend_from_slice(b"},\"logprobs\":");
        if self.logprobs {
            words::chat_logprobs(&choice.logprobs, out);
        } else {
            out.extend_from_slice(b"null");
        }
    }

    fn call(&self, choice: u32, call: &Call, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"id\":");
        words::call_id(&call.id, &self.stamp, choice, call.call, out);
        if self.shape.custom_tools.contains(&call.name) {
            out.extend_from_slice(b",\"type\":\"custom\",\"custom\":{\"name\":");
            string(&call.name, out);
            out.extend_from_slice(b",\"input\":");
            string(&common::custom_input(&call.arguments), out);
        } else {
            out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
            string(&call.name, out);
            arguments(call, out);
        }
        out.extend_from_slice(b"}}");
    }
}

/// The prompts' texts, where the client wants them repeated.
pub(super) struct Echo {
    texts: Vec<String>,
    /// Answers to each prompt.
    each: u32,
}

impl Echo {
    pub fn new(request: &Request) -> Self {
        let prompts = match &request.prompt {
            Prompt::Several(prompts) => prompts.as_slice(),
            one => std::slice::from_ref(one),
        };
        let text = |prompt: &Prompt| match prompt {
            Prompt::Text { prompt, echo: true, .. } => prompt.clone(),
            _ => String::new(),
        };
        Self { texts: prompts.iter().map(text).collect(), each: request.n.max(1) }
    }

    /// What comes before the text of this choice.
    pub fn of(&self, choice: u32) -> &str {
        self.texts.get((choice / self.each) as usize).map_or("", String::as_str)
    }
}

fn arguments(call: &Call, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"arguments\":");
    string(if call.arguments.is_empty() { "{}" } else { &call.arguments }, out);
}

impl Encode for Body {
    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn event(&mut self, event: &Event<'_>, _now_ns: u64, out: &mut Vec<u8>) {
        if self.gathered.event(event) {
            self.write(out);
        }
    }

    fn fault(&mut self, _fault: &Fault, _now_ns: u64, _out: &mut Vec<u8>) {
        self.gathered.failed = true;
    }

    fn keep_alive(&mut self, _now_ns: u64, _out: &mut Vec<u8>) {}
}
