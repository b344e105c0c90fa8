//! Typed reading of a body's tree. Every fault carries its JSON path and a sentence that says what is there and what would
//! be right. `null` is the same as absent; of a repeated key the last counts; unknown keys are ignored.
use std::borrow::Cow;

use serde_json::value::RawValue;

use super::BadBody;
use super::json::{Kind, Node, parse};
use crate::chat::KeepAlive;
use crate::dialect::duration;

pub(crate) type Read<T> = Result<T, BadBody>;

/// A fault at the place where it is found; callers add the way there with [`Under`].
pub(crate) fn bad<T>(path: impl Into<String>, message: impl Into<String>) -> Read<T> {
    Err(BadBody { message: message.into(), path: path.into() })
}

/// Adds the way to a fault, from the inside out.
pub(crate) trait Under: Sized {
    /// It lies under this key.
    fn under(self, key: &str) -> Self;
    /// It lies under this index.
    fn under_index(self, index: usize) -> Self;
}

impl<T> Under for Read<T> {
    fn under(self, key: &str) -> Self {
        self.map_err(|bad| BadBody { path: join(key, &bad.path), message: bad.message })
    }

    fn under_index(self, index: usize) -> Self {
        self.map_err(|bad| BadBody { path: join(&format!("[{index}]"), &bad.path), message: bad.message })
    }
}

fn join(outer: &str, inner: &str) -> String {
    let dot = if inner.is_empty() || inner.starts_with('[') { "" } else { "." };
    format!("{outer}{dot}{inner}")
}

/// Read `body` as one object with `read`.
pub(crate) fn body<T>(body: &[u8], read: impl FnOnce(Obj<'_, '_>) -> Read<T>) -> Read<T> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return bad("", "missing request body: expected a JSON object.");
    }
    let node = parse(body).map_err(|m| BadBody {
        message: format!("The body is not JSON: {} at line {}, column {}.", m.what, m.line, m.column),
        path: String::new(),
    })?;
    read(object(&node)?)
}

/// What a value is, for sentences: `the string "hot"`.
pub(crate) fn describe(node: &Node<'_>) -> String {
    match &node.kind {
        Kind::Null => "null".into(),
        Kind::Bool(value) => value.to_string(),
        Kind::Number => format!("the number {}", short(node.raw)),
        Kind::String(text) => format!("the string \"{}\"", short(text)),
        Kind::Array(_) => "an array".into(),
        Kind::Object(_) => "an object".into(),
    }
}

fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        Some((cut, _)) => Cow::Owned(format!("{}...", &text[..cut])),
        None => Cow::Borrowed(text),
    }
}

/// A fault of type: `wanted` as in "a string".
pub(crate) fn expected<T>(wanted: &str, node: &Node<'_>) -> Read<T> {
    bad("", format!("Expected {wanted}, found {}.", describe(node)))
}

pub(crate) fn string<'n>(node: &'n Node<'_>) -> Read<&'n str> {
    match &node.kind {
        Kind::String(text) => Ok(text),
        _ => expected("a string", node),
    }
}

pub(crate) fn array<'n, 'a>(node: &'n Node<'a>) -> Read<&'n [Node<'a>]> {
    match &node.kind {
        Kind::Array(items) => Ok(items),
        _ => expected("an array", node),
    }
}

pub(crate) fn object<'n, 'a>(node: &'n Node<'a>) -> Read<Obj<'n, 'a>> {
    match &node.kind {
        Kind::Object(fields) => Ok(Obj(fields)),
        _ => expected("an object", node),
    }
}

pub(crate) fn float(node: &Node<'_>) -> Read<f64> {
    if !matches!(node.kind, Kind::Number) {
        return expected("a number", node);
    }
    match node.raw.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => bad("", format!("The number {} is out of range.", short(node.raw))),
    }
}

/// A whole number; `40.0` is one.
pub(crate) fn integer(node: &Node<'_>) -> Read<i64> {
    if let (Kind::Number, Ok(value)) = (&node.kind, node.raw.parse::<i64>()) {
        return Ok(value);
    }
    let value = float(node).or_else(|_| expected("a whole number", node))?;
    // Every whole float of this size is an i64 exactly.
    #[allow(clippy::cast_possible_truncation)]
    if value.fract() == 0.0 && value.abs() < 9.0e15 { Ok(value as i64) } else { expected("a whole number", node) }
}

/// The value's own text, as JSON to pass on.
pub(crate) fn raw(node: &Node<'_>) -> Read<Box<RawValue>> {
    RawValue::from_string(node.raw.to_owned()).or_else(|e| bad("", format!("This JSON cannot be passed on: {e}.")))
}

/// The fields of an object.
#[derive(Clone, Copy)]
pub(crate) struct Obj<'n, 'a>(&'n [(Cow<'a, str>, Node<'a>)]);

impl<'n, 'a> Obj<'n, 'a> {
    /// The value at `key`, unless it is absent or null.
    pub fn get(self, key: &str) -> Option<&'n Node<'a>> {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, node)| node).filter(|node| !matches!(node.kind, Kind::Null))
    }

    fn with<T>(self, key: &str, read: impl FnOnce(&'n Node<'a>) -> Read<T>) -> Read<Option<T>> {
        self.get(key).map(|node| read(node).under(key)).transpose()
    }

    pub fn str(self, key: &str) -> Read<Option<&'n str>> {
        self.with(key, string)
    }

    pub fn bool(self, key: &str) -> Read<Option<bool>> {
        self.with(key, |node| match node.kind {
            Kind::Bool(value) => Ok(value),
            _ => expected("true or false", node),
        })
    }

    pub fn float(self, key: &str) -> Read<Option<f64>> {
        self.with(key, float)
    }

    /// A number from `least` to `most`.
    pub fn float_in(self, key: &str, least: f64, most: f64) -> Read<Option<f64>> {
        let value = self.float(key)?;
        match value {
            Some(v) if v < least || v > most => {
                let range =
                    if most.is_finite() { format!("from {least} to {most}") } else { format!("of at least {least}") };
                bad(key, format!("Expected a number {range}, found {v}."))
            }
            _ => Ok(value),
        }
    }

    pub fn int(self, key: &str) -> Read<Option<i64>> {
        self.with(key, integer)
    }

    /// A whole number from `least` to `most`.
    pub fn int_in(self, key: &str, least: i64, most: i64) -> Read<Option<i64>> {
        let value = self.int(key)?;
        match value {
            Some(v) if v < least || v > most => {
                bad(key, format!("Expected a whole number from {least} to {most}, found {v}."))
            }
            _ => Ok(value),
        }
    }

    /// A count of at least `least`; a larger one than can be counted is the largest.
    pub fn count(self, key: &str, least: u32) -> Read<Option<u32>> {
        let Some(value) = self.int(key)? else { return Ok(None) };
        if value < i64::from(least) {
            return bad(key, format!("Expected a whole number of at least {least}, found {value}."));
        }
        Ok(Some(u32::try_from(value).unwrap_or(u32::MAX)))
    }

    pub fn array(self, key: &str) -> Read<Option<&'n [Node<'a>]>> {
        self.with(key, array)
    }

    pub fn obj(self, key: &str) -> Read<Option<Obj<'n, 'a>>> {
        self.with(key, object)
    }

    /// A string that must be there and say something.
    pub fn required_str(self, key: &str, what: &str) -> Read<&'n str> {
        match self.str(key)? {
            Some(text) if !text.is_empty() => Ok(text),
            Some(_) => bad(key, format!("Expected {what}, found an empty string.")),
            None => bad(key, format!("This field is missing; expected {what}.")),
        }
    }

    /// What lies at `key` is wrong, or nothing lies there.
    pub fn refuse<T>(self, key: &str, wanted: &str) -> Read<T> {
        match self.get(key) {
            Some(node) => expected(wanted, node).under(key),
            None => bad(key, format!("This field is missing; expected {wanted}.")),
        }
    }

    /// The model's name.
    pub fn model(self) -> Read<String> {
        match self.str("model")? {
            Some(name) if !name.is_empty() => Ok(name.to_owned()),
            _ => bad("model", "model is required: expected the name of a model."),
        }
    }

    /// An object to pass on as it is.
    pub fn raw_object(self, key: &str) -> Read<Option<Box<RawValue>>> {
        self.with(key, |node| object(node).and_then(|_| raw(node)))
    }

    /// Stop sequences: a string or a list of strings. Empty ones could never fire and are dropped.
    pub fn stops(self, key: &str) -> Read<Vec<String>> {
        let Some(node) = self.get(key) else { return Ok(Vec::new()) };
        let texts = match &node.kind {
            Kind::String(text) => vec![text.as_ref()],
            Kind::Array(items) => strings(items).under(key)?,
            _ => return expected("a string or an array of strings", node).under(key),
        };
        Ok(texts.into_iter().filter(|text| !text.is_empty()).map(str::to_owned).collect())
    }

    /// How long the model stays: seconds as a number, or a duration such as `5m`.
    pub fn keep_alive(self) -> Read<Option<KeepAlive>> {
        self.with("keep_alive", |node| match &node.kind {
            Kind::Number => Ok(duration::keep(float(node)?)),
            Kind::String(text) => duration::parse(text).map_or_else(
                || {
                    bad(
                        "",
                        format!(
                            "invalid duration \"{}\": expected seconds, or a duration such as \"5m\" or \"1h30m\".",
                            short(text)
                        ),
                    )
                },
                Ok,
            ),
            _ => expected("seconds as a number, or a duration such as \"5m\"", node),
        })
    }
}

/// Every item as a string.
pub(crate) fn strings<'n>(items: &'n [Node<'_>]) -> Read<Vec<&'n str>> {
    items.iter().enumerate().map(|(i, item)| string(item).under_index(i)).collect()
}

/// Every item by `read`.
pub(crate) fn each<'n, 'a, T>(items: &'n [Node<'a>], mut read: impl FnMut(&'n Node<'a>) -> Read<T>) -> Read<Vec<T>> {
    items.iter().enumerate().map(|(i, item)| read(item).under_index(i)).collect()
}
