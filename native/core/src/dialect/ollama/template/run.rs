//! From a template's tree and its data to text.
use super::parse::{Base, Node, Pipe, Term};
use super::value::Value;
use super::{Broken, broken};

/// More than this is not a prompt but a fault.
const MOST_BYTES: usize = 32 * 1024 * 1024;
const MOST_STEPS: usize = 1_000_000;
/// Copying or comparing so many items or bytes takes about as long as a step.
const STEP: usize = 16;

/// One run. `today` is the date, as in `2026-12-02`.
pub(super) struct Run<'a> {
    root: Value,
    today: &'a str,
    variables: Vec<(&'a str, Value)>,
    out: String,
    steps: usize,
}

#[derive(PartialEq)]
enum Flow {
    On,
    Break,
    Continue,
}

impl<'a> Run<'a> {
    pub fn new(root: Value, today: &'a str) -> Self {
        Self { root, today, variables: Vec::new(), out: String::new(), steps: 0 }
    }

    /// The text that `nodes` make.
    pub fn text(mut self, nodes: &'a [Node]) -> Result<String, Broken> {
        let root = self.root.clone();
        self.block(nodes, &root)?;
        Ok(self.out)
    }

    fn block(&mut self, nodes: &'a [Node], dot: &Value) -> Result<Flow, Broken> {
        let scope = self.variables.len();
        let mut flow = Flow::On;
        for node in nodes {
            flow = self.node(node, dot)?;
            if flow != Flow::On {
                break;
            }
        }
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn node(&mut self, node: &'a Node, dot: &Value) -> Result<Flow, Broken> {
        self.steps += 1;
        if self.steps > MOST_STEPS || self.out.len() > MOST_BYTES {
            return broken("it makes too much of this conversation");
        }
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Put(pipe) => {
                let value = self.pipe(pipe, dot)?;
                value.put(&mut self.out);
            }
            Node::If(cases, otherwise) => {
                for (condition, body) in cases {
                    if self.pipe(condition, dot)?.truth() {
                        return self.block(body, dot);
                    }
                }
                return self.block(otherwise, dot);
            }
            Node::Range { key, value, over, body, otherwise } => {
                let over = self.pipe(over, dot)?;
                return self.range(key.as_deref(), value.as_deref(), &over, body, otherwise, dot);
            }
            Node::With(pipe, body, otherwise) => {
                let value = self.pipe(pipe, dot)?;
                return if value.truth() { self.block(body, &value) } else { self.block(otherwise, dot) };
            }
            Node::Let { name, pipe, new } => {
                let value = self.pipe(pipe, dot)?;
                let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
                match known {
                    _ if *new => self.variables.push((name, value)),
                    Some((_, old)) => *old = value,
                    None => return broken(format!("${name} is set before it is declared")),
                }
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn range(
        &mut self,
        key: Option<&'a str>,
        name: Option<&'a str>,
        over: &Value,
        body: &'a [Node],
        otherwise: &'a [Node],
        dot: &Value,
    ) -> Result<Flow, Broken> {
        #[expect(clippy::cast_precision_loss, reason = "no list is that long")]
        let pairs: Vec<(Value, Value)> = match over {
            Value::Nil => Vec::new(),
            Value::List(items) => {
                items.iter().enumerate().map(|(at, item)| (Value::Number(at as f64), item.clone())).collect()
            }
            Value::Map(fields) => {
                // As Go goes through maps.
                let mut sorted: Vec<_> = fields.iter().collect();
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
                sorted.into_iter().map(|(key, value)| (Value::text(key), value.clone())).collect()
            }
            _ => return broken("a range is over something that is neither a list nor a map"),
        };
        if pairs.is_empty() {
            return self.block(otherwise, dot);
        }
        let scope = self.variables.len();
        for (at, item) in pairs {
            self.variables.truncate(scope);
            self.variables.extend(key.map(|key| (key, at)));
            self.variables.extend(name.map(|name| (name, item.clone())));
            if self.block(body, &item)? == Flow::Break {
                break;
            }
        }
        self.variables.truncate(scope);
        Ok(Flow::On)
    }

    fn pipe(&mut self, pipe: &'a Pipe, dot: &Value) -> Result<Value, Broken> {
        let mut last: Option<Value> = None;
        for command in &pipe.0 {
            last = Some(self.command(command, last, dot)?);
        }
        Ok(last.unwrap_or(Value::Nil))
    }

    fn command(&mut self, terms: &'a [Term], last: Option<Value>, dot: &Value) -> Result<Value, Broken> {
        let Some((first, rest)) = terms.split_first() else { return Ok(Value::Nil) };
        let Base::Function(name) = &first.base else {
            return if rest.is_empty() && last.is_none() {
                self.term(first, dot)
            } else {
                broken("something is called that is no function")
            };
        };
        if matches!(name.as_str(), "and" | "or") {
            return self.first_that_decides(name == "or", rest, last, dot);
        }
        let mut given = rest.iter().map(|term| self.term(term, dot)).collect::<Result<Vec<_>, _>>()?;
        given.extend(last);
        let value = call(name, &given, self.today)?;
        let compared = if matches!(name.as_str(), "eq" | "ne") { given.first().and_then(Value::len) } else { None };
        self.steps += value.len().max(compared).unwrap_or(0) / STEP;
        Ok(first.fields.iter().fold(value, |value, field| value.field(field)))
    }

    /// `and` and `or` look no further than they must.
    fn first_that_decides(
        &mut self,
        wanted: bool,
        terms: &'a [Term],
        last: Option<Value>,
        dot: &Value,
    ) -> Result<Value, Broken> {
        let mut value = Value::Nil;
        for term in terms {
            value = self.term(term, dot)?;
            if value.truth() == wanted {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    fn term(&mut self, term: &'a Term, dot: &Value) -> Result<Value, Broken> {
        let base = match &term.base {
            Base::Dot => dot.clone(),
            Base::Root => self.root.clone(),
            Base::Variable(name) => match self.variables.iter().rev().find(|(known, _)| known == name) {
                Some((_, value)) => value.clone(),
                None => return broken(format!("${name} is not declared")),
            },
            Base::Text(text) => Value::text(text),
            Base::Number(value) => Value::Number(*value),
            Base::Bool(value) => Value::Bool(*value),
            Base::Nil => Value::Nil,
            Base::Function(name) => call(name, &[], self.today)?,
            Base::Group(pipe) => self.pipe(pipe, dot)?,
        };
        Ok(term.fields.iter().fold(base, |value, field| value.field(field)))
    }
}

/// The functions of Go and Ollama that models' templates use.
fn call(name: &str, given: &[Value], today: &str) -> Result<Value, Broken> {
    Ok(match (name, given) {
        ("not", [value]) => Value::Bool(!value.truth()),
        ("eq", [first, rest @ ..]) if !rest.is_empty() => Value::Bool(rest.iter().any(|other| alike(first, other))),
        ("ne", [a, b]) => Value::Bool(!alike(a, b)),
        ("lt" | "le" | "gt" | "ge", [Value::Number(a), Value::Number(b)]) => Value::Bool(match name {
            "lt" => a < b,
            "le" => a <= b,
            "gt" => a > b,
            _ => a >= b,
        }),
        ("len", [value]) => match value.len() {
            #[expect(clippy::cast_precision_loss, reason = "no list is that long")]
            Some(len) => Value::Number(len as f64),
            None => return broken("len is asked of something that has none"),
        },
        ("index", [value, keys @ ..]) => keys.iter().try_fold(value.clone(), |value, key| index(&value, key))?,
        ("slice", [value, bounds @ ..]) => slice(value, bounds)?,
        ("json" | "toJson", [value]) => Value::text(&value.to_json()),
        ("print", values) => {
            let mut text = String::new();
            for value in values {
                value.put(&mut text);
            }
            Value::text(&text)
        }
        ("printf", [Value::Text(format), values @ ..]) => Value::text(&printf(format, values)),
        ("currentDate", []) => Value::text(today),
        ("slice" | "index" | "not" | "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "json" | "printf", _) => {
            return broken(format!("{name} cannot be used on what it is given"));
        }
        _ => return broken(format!("the function {name} is not known")),
    })
}

/// A field that is not set is the empty text and zero, as in Go's structs.
fn alike(a: &Value, b: &Value) -> bool {
    a == b || (matches!(a, Value::Nil) && !b.truth()) || (matches!(b, Value::Nil) && !a.truth())
}

fn index(value: &Value, key: &Value) -> Result<Value, Broken> {
    match (value, key) {
        (Value::List(items), Value::Number(at)) => match whole(*at).and_then(|at| items.get(at)) {
            Some(item) => Ok(item.clone()),
            None => broken("an index is beyond the end of its list"),
        },
        (Value::Map(fields), Value::Text(key)) => {
            Ok(fields.iter().find(|(name, _)| **name == **key).map_or(Value::Nil, |(_, value)| value.clone()))
        }
        _ => broken("index is used on something that has no items"),
    }
}

fn slice(value: &Value, bounds: &[Value]) -> Result<Value, Broken> {
    let Some(len) = value.len() else { return broken("slice is used on something that has no items") };
    let bound = |at: usize, otherwise: usize| match bounds.get(at) {
        None => Some(otherwise),
        Some(Value::Number(number)) => whole(*number),
        Some(_) => None,
    };
    let range = match (bound(0, 0), bound(1, len)) {
        (Some(from), Some(to)) if from <= to && to <= len => from..to,
        _ => return broken("a slice is beyond the end of its list"),
    };
    match value {
        Value::List(items) => Ok(Value::List(items[range].into())),
        Value::Text(text) => match text.get(range) {
            Some(part) => Ok(Value::text(part)),
            None => broken("a slice cuts a character"),
        },
        _ => broken("slice is used on something that has no items"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a small whole number")]
fn whole(number: f64) -> Option<usize> {
    (number >= 0.0 && number.fract() == 0.0 && number < 1e15).then_some(number as usize)
}

/// `%s`, `%d`, `%v` and `%q`; flags and widths are left out.
fn printf(format: &str, values: &[Value]) -> String {
    let mut out = String::new();
    let mut values = values.iter();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.by_ref().find(|c| c.is_alphabetic() || *c == '%') {
            Some('%') => out.push('%'),
            Some('q') => out.push_str(&values.next().map(Value::to_json).unwrap_or_default()),
            _ => {
                if let Some(value) = values.next() {
                    value.put(&mut out);
                }
            }
        }
    }
    out
}
