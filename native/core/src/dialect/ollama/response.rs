//! One JSON body, written when the answer is complete. It is one line: Ollama's own client reads line by line.
use super::words::{self, Account};
use crate::chat::{Event, Fault, Finish, Request};
use crate::dialect::gather::{Call, Choice, Gathered};
use crate::dialect::write::{escaped, list, string};
use crate::dialect::{Encode, Route, Stamp, common};

/// The writer of a body.
pub(super) struct Body {
    route: Route,
    model: String,
    stamp: String,
    logprobs: bool,
    account: Account,
    gathered: Gathered,
    broken: Option<Fault>,
}

impl Body {
    pub fn new(route: Route, request: &Request, stamp: Stamp) -> Self {
        Self {
            route,
            model: request.model.clone(),
            stamp: stamp.id.clone(),
            logprobs: request.logprobs.is_some(),
            account: Account::new(request, stamp),
            gathered: Gathered::new(1),
            broken: None,
        }
    }

    fn write(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        let none = Choice::default();
        let choice = self.gathered.choices.first().unwrap_or(&none);
        let calls = match calls(choice) {
            Ok(calls) => calls,
            Err(fault) => {
                self.broken = Some(fault);
                return;
            }
        };
        out.extend_from_slice(b"{\"model\":");
        string(&self.model, out);
        out.extend_from_slice(b",\"created_at\":");
        self.account.time(now_ns, out);
        let chat = self.route == Route::OllamaChat;
        let start: &[u8] =
            if chat { b",\"message\":{\"role\":\"assistant\",\"content\":\"" } else { b",\"response\":\"" };
        out.extend_from_slice(start);
        choice.text().for_each(|text| escaped(text, out));
        out.push(b'"');
        if choice.reasoning().next().is_some() {
            out.extend_from_slice(b",\"thinking\":\"");
            choice.reasoning().for_each(|text| escaped(text, out));
            out.push(b'"');
        }
        if !calls.is_empty() {
            out.extend_from_slice(b",\"tool_calls\":");
            list(&calls, out, |(call, arguments), out| words::call(call, arguments, &self.stamp, out));
        }
        if chat {
            out.push(b'}');
        }
        if self.logprobs && !choice.logprobs.is_empty() {
            words::logprobs(&choice.logprobs, out);
        }
        out.push(b',');
        let answer = if self.account.remembers() { choice.text().collect() } else { String::new() };
        self.account.last(&answer, now_ns, out);
        out.push(b'}');
    }
}

/// The calls with their arguments. One that the limit cut off is no call.
fn calls(choice: &Choice) -> Result<Vec<(&Call, String)>, Fault> {
    let mut whole = Vec::new();
    for call in choice.calls() {
        match common::whole_arguments(&call.arguments) {
            Some(arguments) => whole.push((call, arguments)),
            None if choice.finish == Some(Finish::Length) => {}
            None => return Err(words::broken(&call.name)),
        }
    }
    Ok(whole)
}

impl Encode for Body {
    fn content_type(&self) -> &'static str {
        "application/json; charset=utf-8"
    }

    fn event(&mut self, event: &Event<'_>, now_ns: u64, out: &mut Vec<u8>) {
        match event {
            Event::Text { .. } | Event::Reasoning { .. } | Event::CallStart { .. } | Event::CallArguments { .. } => {
                self.account.piece(now_ns);
            }
            _ => self.account.note(event),
        }
        if self.gathered.event(event) {
            self.write(now_ns, out);
        }
    }

    fn fault(&mut self, _fault: &Fault, _now_ns: u64, _out: &mut Vec<u8>) {
        self.gathered.failed = true;
    }

    fn keep_alive(&mut self, _now_ns: u64, _out: &mut Vec<u8>) {}

    fn broken(&self) -> Option<&Fault> {
        self.broken.as_ref()
    }
}
