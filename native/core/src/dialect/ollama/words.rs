//! The pieces of JSON that Ollama's bodies and streams share.
use super::context;
use crate::chat::{Event, Fault, Finish, Request, Timings, TokenLogprob, Usage};
use crate::dialect::Stamp;
use crate::dialect::gather::Call;
use crate::dialect::time::Times;
use crate::dialect::write::{int, list, logprob, string};

/// Counts, clocks and the reason: what the last object of an answer says.
pub(super) struct Account {
    stamp: Stamp,
    times: Times,
    usage: Usage,
    timings: Option<Timings>,
    /// When the first and the last piece of the answer came; the clock where the engine has none.
    first_ns: Option<u64>,
    last_ns: u64,
    reason: &'static str,
    /// The conversation that the answer is given back with.
    said: Option<String>,
}

impl Account {
    pub fn new(request: &Request, stamp: Stamp) -> Self {
        Self {
            last_ns: stamp.started_ns,
            stamp,
            times: Times::new(),
            usage: Usage::default(),
            timings: None,
            first_ns: None,
            reason: "stop",
            said: request.shape.said.clone(),
        }
    }

    /// Something of the answer came.
    pub fn piece(&mut self, now_ns: u64) {
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
    }

    /// Remember what the last object will say.
    pub fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Usage { usage, timings } => {
                self.usage = *usage;
                self.timings = *timings;
            }
            Event::Finish { reason, .. } => self.reason = if *reason == Finish::Length { "length" } else { "stop" },
            _ => {}
        }
    }

    /// The civil time at `now_ns`, inside quotes.
    pub fn time(&mut self, now_ns: u64, out: &mut Vec<u8>) {
        let since = now_ns.saturating_sub(self.stamp.started_ns);
        out.push(b'"');
        self.times.write(self.stamp.created_ns.saturating_add(since), out);
        out.push(b'"');
    }

    /// Whether the answer's text is wanted at the end.
    pub fn remembers(&self) -> bool {
        self.said.is_some()
    }

    /// `"done":true,…` with counts and durations; like Ollama, without those that are zero. `answer` is its text, where it
    /// is wanted.
    pub fn last(&self, answer: &str, now_ns: u64, out: &mut Vec<u8>) {
        let started = self.stamp.started_ns;
        let load = self.stamp.load_ns.max(1);
        let (prompt, eval) = if let Some(timings) = self.timings {
            (timings.prompt_ns, timings.predicted_ns)
        } else {
            let first = self.first_ns.unwrap_or(now_ns);
            (first.saturating_sub(started.saturating_add(load)), self.last_ns.saturating_sub(first))
        };
        let parts = load.saturating_add(prompt).saturating_add(eval);
        out.extend_from_slice(b"\"done\":true,\"done_reason\":\"");
        out.extend_from_slice(self.reason.as_bytes());
        out.push(b'"');
        if let Some(said) = &self.said {
            out.extend_from_slice(b",\"context\":");
            context::write(said, answer, out);
        }
        for (name, value) in [
            ("total_duration", now_ns.saturating_sub(started).max(parts)),
            ("load_duration", load),
            ("prompt_eval_count", self.usage.prompt),
            ("prompt_eval_duration", prompt),
            ("eval_count", self.usage.completion),
            ("eval_duration", eval),
        ] {
            if value > 0 {
                out.extend_from_slice(b",\"");
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
                int(value, out);
            }
        }
    }
}

/// One call; `arguments` is the JSON of an object, on one line.
pub(super) fn call(call: &Call, arguments: &str, stamp: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":");
    if call.id.is_empty() {
        string(&format!("call_{}{}", stamp.get(..8).unwrap_or(stamp), call.call), out);
    } else {
        out.push(b'"');
        crate::dialect::write::id(&call.id, out);
        out.push(b'"');
    }
    out.extend_from_slice(b",\"function\":{\"index\":");
    int(call.call, out);
    out.extend_from_slice(b",\"name\":");
    string(&call.name, out);
    out.extend_from_slice(b",\"arguments\":");
    out.extend_from_slice(arguments.as_bytes());
    out.extend_from_slice(b"}}");
}

/// `,"logprobs":[…]`.
pub(super) fn logprobs(tokens: &[TokenLogprob], out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"logprobs\":");
    list(tokens, out, |token, out| {
        one(token, out);
        if !token.top.is_empty() {
            out.extend_from_slice(b",\"top_logprobs\":");
            list(&token.top, out, |top, out| {
                one(top, out);
                out.push(b'}');
            });
        }
        out.push(b'}');
    });
}

fn one(token: &TokenLogprob, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"token\":");
    string(&token.token, out);
    out.extend_from_slice(b",\"logprob\":");
    logprob(token.logprob, out);
    if let Some(bytes) = &token.bytes {
        out.extend_from_slice(b",\"bytes\":");
        list(bytes, out, |byte, out| int(*byte, out));
    }
}

/// `{"error":…}` without a line's end, as the gateway also says it before a stream begins.
pub(super) fn fault(fault: &Fault, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":");
    string(&fault.message, out);
    out.extend_from_slice(b",\"blazar_code\":");
    string(&fault.code, out);
    out.push(b'}');
}

/// The model called `name` with arguments that are no JSON object: this dialect has no way to say them.
pub(super) fn broken(name: &str) -> Fault {
    Fault::new(
        crate::chat::FaultKind::BadGateway,
        format!("The model called the tool '{name}' with arguments that are not a JSON object."),
    )
}
