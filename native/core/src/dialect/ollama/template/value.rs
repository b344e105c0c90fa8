//! What a template works on.
use crate::dialect::json::{Kind, Node};
use crate::dialect::write::string;
use std::rc::Rc;

/// A value. Copies share what is large.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Nil,
    Bool(bool),
    Number(f64),
    Text(Rc<str>),
    List(Rc<[Self]>),
    /// In the order in which it is written as JSON.
    Map(Rc<[(String, Self)]>),
}

impl Value {
    pub fn text(text: &str) -> Self {
        Self::Text(Rc::from(text))
    }

    pub fn map<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    pub fn list(items: impl IntoIterator<Item = Self>) -> Self {
        Self::List(items.into_iter().collect())
    }

    /// What the JSON `node` says.
    pub fn json(node: &Node<'_>) -> Self {
        match &node.kind {
            Kind::Null => Self::Nil,
            Kind::Bool(value) => Self::Bool(*value),
            Kind::Number => Self::Number(node.raw.parse().unwrap_or(0.0)),
            Kind::String(text) => Self::text(text),
            Kind::Array(items) => Self::list(items.iter().map(Self::json)),
            Kind::Object(fields) => {
                Self::Map(fields.iter().map(|(name, value)| (name.to_string(), Self::json(value))).collect())
            }
        }
    }

    /// As Go counts truth: what is empty or zero is false.
    pub fn truth(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Number(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(items) => !items.is_empty(),
            Self::Map(fields) => !fields.is_empty(),
        }
    }

    /// The field that Go calls `ToolCalls` and JSON `tool_calls`.
    pub fn field(&self, name: &str) -> Self {
        let Self::Map(fields) = self else { return Self::Nil };
        let same = |key: &str| {
            let letters =
                |text: &str| text.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect::<String>();
            key == name || letters(key) == letters(name)
        };
        fields.iter().find(|(key, _)| same(key)).map_or(Self::Nil, |(_, value)| value.clone())
    }

    /// How many it holds; `None` for what holds nothing.
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Text(text) => Some(text.len()),
            Self::List(items) => Some(items.len()),
            Self::Map(fields) => Some(fields.len()),
            Self::Nil => Some(0),
            Self::Bool(_) | Self::Number(_) => None,
        }
    }

    /// As it appears in the output: text as it is, what is composed as JSON.
    pub fn put(&self, out: &mut String) {
        match self {
            Self::Nil => {}
            Self::Text(text) => out.push_str(text),
            other => out.push_str(&other.to_json()),
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nil => out.extend_from_slice(b"null"),
            Self::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Self::Number(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Self::Text(text) => string(text, out),
            Self::List(items) => {
                out.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    item.write(out);
                }
                out.push(b']');
            }
            Self::Map(fields) => {
                out.push(b'{');
                for (at, (name, value)) in fields.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    string(name, out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nil, Self::Nil) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => (a - b).abs() < f64::EPSILON,
            (Self::Text(a), Self::Text(b)) => a == b,
            _ => false,
        }
    }
}
