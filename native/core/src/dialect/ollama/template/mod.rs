//! Templates in Ollama's own language (Go's `text/template`), as Modelfiles and requests bring them.
//!
//! One that knows `.Messages` is run once over the conversation; an older one is run for each exchange, and the last time
//! only up to its `.Response`, where the model goes on.
mod parse;
mod run;
#[cfg(test)]
mod tests;
mod value;

use crate::chat::{Part, Request, Role, Think, ThinkLevel, Tool, Turn};
use crate::dialect::json;
use parse::{Base, Node, Pipe};
use run::Run;
use value::Value;

/// Why a template cannot be used, as the end of a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub String);

fn broken<T>(why: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(why.into()))
}

/// Whether it can be read, whatever it is then given.
pub(crate) fn check(source: &str) -> Result<(), Broken> {
    match parse::parse(source)? {
        // A template in another language is one long text.
        nodes if !mentions(&nodes, "Messages") && !mentions(&nodes, "Prompt") => {
            broken("it has neither .Prompt nor .Messages")
        }
        _ => Ok(()),
    }
}

/// The prompt that the template `source` makes of `request`'s conversation. `today` is the date, as in `2026-12-02`.
pub(crate) fn render(source: &str, request: &Request, turns: &[Turn], today: &str) -> Result<String, Broken> {
    let mut nodes = parse::parse(source)?;
    let messages = joined(messages(turns)?);
    if mentions(&nodes, "Messages") {
        let root = data(request, &messages, [("System", system(&messages)), ("Messages", list(&messages))]);
        return Run::new(root, today).text(&nodes);
    }
    if !mentions(&nodes, "Response") {
        nodes.push(Node::Put(Pipe(vec![vec![parse::Term { base: Base::Dot, fields: vec!["Response".into()] }]])));
    }
    let (mut text, mut one) = (String::new(), Exchange::default());
    for message in &messages {
        let (place, after) = match message.role {
            Role::System => (0, &one.said[1..]),
            Role::User => (1, &one.said[2..]),
            Role::Assistant => (2, &one.said[3..]),
            Role::Tool => continue,
        };
        if after.iter().any(|said| !said.is_empty()) {
            text += &Run::new(data(request, &messages, one.fields()), today).text(&nodes)?;
            one = Exchange::default();
        }
        one.said[place].clone_from(&message.content);
    }
    cut(&mut nodes);
    text += &Run::new(data(request, &messages, one.fields()), today).text(&nodes)?;
    Ok(text)
}

/// What one run of an older template is given.
#[derive(Default)]
struct Exchange {
    /// System, prompt, response.
    said: [String; 3],
}

impl Exchange {
    fn fields(&self) -> [(&'static str, Value); 3] {
        let [system, prompt, response] = &self.said;
        [("System", Value::text(system)), ("Prompt", Value::text(prompt)), ("Response", Value::text(response))]
    }
}

/// A message as templates see it.
struct Message {
    role: Role,
    content: String,
    thinking: String,
    calls: Vec<Value>,
    tool: Option<(String, String)>,
}

fn messages(turns: &[Turn]) -> Result<Vec<Message>, Broken> {
    let mut all = Vec::new();
    for turn in turns {
        let new =
            |role| Message { role, content: String::new(), thinking: String::new(), calls: Vec::new(), tool: None };
        let mut message = new(turn.role);
        let mut said = false;
        for part in &turn.parts {
            match part {
                Part::Result { id, name, text, .. } => {
                    let tool = Some((name.clone().unwrap_or_default(), id.clone()));
                    all.push(Message { content: text.clone(), tool, ..new(Role::Tool) });
                    continue;
                }
                Part::Text(text) => {
                    if !message.content.is_empty() {
                        message.content.push('\n');
                    }
                    message.content.push_str(text);
                }
                Part::Reasoning { text, .. } => message.thinking.push_str(text),
                Part::Call { id, name, arguments } => {
                    message.calls.push(call(message.calls.len(), id, name, arguments));
                }
                Part::Image { .. } | Part::Link(_) | Part::Audio { .. } => {
                    return broken("it has no place for what is not text");
                }
            }
            said = true;
        }
        if said {
            all.push(message);
        }
    }
    Ok(all)
}

/// Neighbours who say plain text in the same role are one message.
fn joined(messages: Vec<Message>) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match all.last_mut() {
            Some(last) if last.role == message.role && last.calls.is_empty() && message.role != Role::Tool => {
                if !last.content.is_empty() && !message.content.is_empty() {
                    last.content.push_str("\n\n");
                }
                last.content.push_str(&message.content);
                last.thinking.push_str(&message.thinking);
                last.calls = message.calls;
            }
            _ => all.push(message),
        }
    }
    all
}

fn system(messages: &[Message]) -> Value {
    let said: Vec<_> = messages.iter().filter(|one| one.role == Role::System).map(|one| one.content.as_str()).collect();
    Value::text(&said.join("\n\n"))
}

fn list(messages: &[Message]) -> Value {
    Value::list(messages.iter().map(|message| {
        let (name, id) = message.tool.as_ref().map_or(("", ""), |(name, id)| (name, id));
        Value::map([
            ("role", Value::text(role(message.role))),
            ("content", Value::text(&message.content)),
            ("thinking", Value::text(&message.thinking)),
            ("tool_calls", Value::list(message.calls.iter().cloned())),
            ("tool_name", Value::text(name)),
            ("tool_call_id", Value::text(id)),
        ])
    }))
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn call(index: usize, id: &str, name: &str, arguments: &str) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "no answer has that many calls")]
    let index = Value::Number(index as f64);
    let function = [("index", index), ("name", Value::text(name)), ("arguments", read(arguments))];
    Value::map([("id", Value::text(id)), ("function", Value::map(function))])
}

fn tool(tool: &Tool) -> Value {
    let parameters = tool.parameters.as_ref().map_or(Value::Nil, |schema| read(schema.get()));
    let description = Value::text(tool.description.as_deref().unwrap_or_default());
    let function = [("name", Value::text(&tool.name)), ("description", description), ("parameters", parameters)];
    Value::map([("type", Value::text("function")), ("function", Value::map(function))])
}

fn read(text: &str) -> Value {
    json::parse(text.as_bytes()).map_or(Value::Nil, |node| Value::json(&node))
}

fn data<const N: usize>(request: &Request, messages: &[Message], own: [(&'static str, Value); N]) -> Value {
    let (set, on, level) = match request.think {
        Think::Default => (false, false, ""),
        Think::Off => (true, false, ""),
        Think::On { level, .. } => {
            let word = level.map_or("", |level| match level {
                ThinkLevel::Low => "low",
                ThinkLevel::Medium => "medium",
                ThinkLevel::High => "high",
            });
            (true, true, word)
        }
    };
    let last = messages.iter().rev().find(|one| one.role == Role::User).map_or("", |one| one.content.as_str());
    let common = [
        ("Tools", Value::list(request.tools.iter().map(tool))),
        ("Think", Value::Bool(on)),
        ("ThinkLevel", Value::text(level)),
        ("IsThinkSet", Value::Bool(set)),
        ("Prompt", Value::text(last)),
    ];
    Value::Map(own.into_iter().chain(common).map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Whether any action names the field.
fn mentions(nodes: &[Node], name: &str) -> bool {
    nodes.iter().any(|node| match node {
        Node::Text(_) | Node::Break | Node::Continue => false,
        Node::Put(pipe) | Node::Let { pipe, .. } => named(pipe, name),
        Node::If(cases, otherwise) => {
            cases.iter().any(|(pipe, body)| named(pipe, name) || mentions(body, name)) || mentions(otherwise, name)
        }
        Node::Range { over: pipe, body, otherwise, .. } | Node::With(pipe, body, otherwise) => {
            named(pipe, name) || mentions(body, name) || mentions(otherwise, name)
        }
    })
}

fn named(pipe: &Pipe, name: &str) -> bool {
    pipe.0.iter().flatten().any(|term| {
        term.fields.first().is_some_and(|field| field == name)
            || matches!(&term.base, Base::Group(inner) if named(inner, name))
    })
}

/// Take away what follows the first place that puts `.Response`. True: there is such a place.
fn cut(nodes: &mut Vec<Node>) -> bool {
    for at in 0..nodes.len() {
        let here = match &mut nodes[at] {
            Node::Put(pipe) => named(pipe, "Response"),
            Node::If(cases, otherwise) => cases.iter_mut().any(|(_, body)| cut(body)) || cut(otherwise),
            Node::Range { body, otherwise, .. } | Node::With(_, body, otherwise) => cut(body) || cut(otherwise),
            Node::Text(_) | Node::Let { .. } | Node::Break | Node::Continue => false,
        };
        if here {
            nodes.truncate(at + 1);
            return true;
        }
    }
    false
}
