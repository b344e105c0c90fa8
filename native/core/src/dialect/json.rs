//! JSON text into a tree that borrows from it, with the place of every fault.
//!
//! Values keep their own text, so that schemas and tool arguments pass on with their key order and their numbers as they
//! were written, and so that a string without escapes (an image of megabytes) is not copied. Depth and count are bounded.
use std::borrow::Cow;

use memchr::memchr2;

const DEPTH: u32 = 128;
const VALUES: u32 = 1 << 20;

/// One value.
#[derive(Debug, Clone)]
pub(crate) struct Node<'a> {
    /// Its text.
    pub raw: &'a str,
    /// What it is.
    pub kind: Kind<'a>,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(crate) enum Kind<'a> {
    Null,
    Bool(bool),
    /// Its text is a JSON number.
    Number,
    String(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// Text that is not JSON: where, and what would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// As in "expected ',' or '}'".
    pub what: &'static str,
}

/// Read the one value that `body` holds.
pub(crate) fn parse(body: &[u8]) -> Result<Node<'_>, Malformed> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let text = std::str::from_utf8(body).map_err(|e| place(body, e.valid_up_to(), "the text is not UTF-8"))?;
    let mut reader = Reader { text, at: 0, values: 0 };
    let read = reader.value(0).and_then(|node| {
        reader.space();
        if reader.at == text.len() { Ok(node) } else { Err("nothing was expected after the value") }
    });
    read.map_err(|what| place(body, reader.at, what))
}

fn place(body: &[u8], at: usize, what: &'static str) -> Malformed {
    let before = &body[..at.min(body.len())];
    let start = memchr::memrchr(b'\n', before).map_or(0, |n| n + 1);
    Malformed {
        line: 1 + memchr::memchr_iter(b'\n', before).count(),
        // Continuation bytes are no characters of their own.
        column: 1 + before[start..].iter().filter(|b| (**b & 0xC0) != 0x80).count(),
        what,
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    values: u32,
}

type Read<T> = Result<T, &'static str>;

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: u32) -> Read<Node<'a>> {
        if depth > DEPTH {
            return Err("the values are nested more than 128 deep");
        }
        self.values += 1;
        if self.values > VALUES {
            return Err("there are more than 1048576 values");
        }
        self.space();
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Kind::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Kind::Bool(true))?,
            Some(b'f') => self.word("false", Kind::Bool(false))?,
            Some(b'n') => self.word("null", Kind::Null)?,
            Some(_) => return Err("expected a value"),
            None => return Err("the text ends where a value was expected"),
        };
        Ok(Node { raw: &self.text[start..self.at], kind })
    }

    fn word(&mut self, word: &str, kind: Kind<'a>) -> Read<Kind<'a>> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(kind)
        } else {
            Err("expected a value")
        }
    }

    fn number(&mut self) -> Read<Kind<'a>> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Kind::Number)
    }

    fn digits(&mut self) -> Read<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err("expected a digit") } else { Ok(()) }
    }

    fn array(&mut self, depth: u32) -> Read<Kind<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Kind::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Kind::Array(items));
                }
                _ => return Err("expected ',' or ']'"),
            }
        }
    }

    fn object(&mut self, depth: u32) -> Read<Kind<'a>> {
        self.at += 1;
        let mut fields = Vec::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Object(fields));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err("expected a key in double quotes");
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err("expected ':'");
            }
            self.at += 1;
            fields.push((key, self.value(depth + 1)?));
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Kind::Object(fields));
                }
                _ => return Err("expected ',' or '}'"),
            }
        }
    }

    /// The string that begins at the quote here.
    fn string(&mut self) -> Read<Cow<'a, str>> {
        self.at += 1;
        let first = self.run()?;
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(first));
        }
        let mut owned = String::from(first);
        loop {
            if self.peek() == Some(b'"') {
                self.at += 1;
                return Ok(Cow::Owned(owned));
            }
            self.at += 1;
            owned.push(self.escape()?);
            owned.push_str(self.run()?);
        }
    }

    /// Plain characters up to the next quote or backslash.
    fn run(&mut self) -> Read<&'a str> {
        let rest = &self.text[self.at..];
        let Some(length) = memchr2(b'"', b'\\', rest.as_bytes()) else {
            self.at = self.text.len();
            return Err("the text ends inside a string");
        };
        let run = &rest[..length];
        // Without an early way out the compiler tests many bytes at once, and an image has many.
        if run.bytes().fold(0, |found, b| found | u8::from(b < 0x20)) != 0 {
            self.at += run.bytes().position(|b| b < 0x20).unwrap_or(0);
            return Err("a control character in a string must be escaped");
        }
        self.at += length;
        Ok(run)
    }

    /// The character that an escape means; its backslash is behind us.
    fn escape(&mut self) -> Read<char> {
        let letter = self.peek();
        let plain = match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err("no such escape in a string"),
        };
        self.at += 1;
        Ok(plain)
    }

    /// Half a surrogate pair means nothing, and JavaScript clients send it nevertheless: it becomes U+FFFD.
    fn unicode(&mut self) -> Read<char> {
        let high = self.hex()?;
        if !(0xD800..0xDC00).contains(&high) {
            return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        if !self.text[self.at..].starts_with("\\u") {
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let back = self.at;
        self.at += 2;
        let low = self.hex()?;
        if !(0xDC00..0xE000).contains(&low) {
            self.at = back;
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Read<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            code = code * 16 + digit.ok_or("expected four hexadecimal digits after \\u")?;
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn value(node: &Node<'_>) -> Value {
        match &node.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            // The other reader is off by a last digit in some floats.
            Kind::Number => match node.raw.parse::<i64>() {
                Ok(whole) => Value::from(whole),
                Err(_) => Value::from(node.raw.parse::<f64>().unwrap()),
            },
            Kind::String(text) => Value::String(text.clone().into_owned()),
            Kind::Array(items) => items.iter().map(value).collect(),
            Kind::Object(fields) => {
                Value::Object(fields.iter().map(|(key, node)| (key.clone().into_owned(), value(node))).collect())
            }
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_what_others_write(tree in json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) }.unwrap();
            prop_assert_eq!(value(&parse(text.as_bytes()).unwrap()), tree);
        }

        #[test]
        fn takes_and_refuses_as_others_do(text in r#"[\[\]{},:"\\ntrue0-9.eE+ u\n-]{0,24}"#) {
            let others = serde_json::from_str::<Value>(&text);
            // Others refuse half surrogates and numbers beyond a float; here the first become U+FFFD, the second are read later.
            let lenient = others.as_ref().is_err_and(|e| {
                let said = e.to_string();
                said.contains("surrogate") || said.contains("out of range") || said.contains("end of hex escape")
            });
            prop_assert!(lenient || parse(text.as_bytes()).is_ok() == others.is_ok(), "{:?}", others);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn faults_have_their_place() {
        for (text, line, column) in [
            ("{\"a\": 1,\n \"b\" 2}", 2, 6),
            ("{\"\u{e9}\u{e9}\": x}", 1, 8),
            ("[1, 2", 1, 6),
            ("{} {}", 1, 4),
            ("\"a\nb\"", 1, 3),
            ("", 1, 1),
            ("[01]", 1, 3),
            ("\"\\x\"", 1, 3),
        ] {
            let fault = parse(text.as_bytes()).unwrap_err();
            assert_eq!((fault.line, fault.column), (line, column), "{text}: {}", fault.what);
        }
        assert_eq!(parse(b"[\"\xff\"]").unwrap_err().column, 3);
    }

    #[test]
    fn depth_and_count_are_bounded() {
        assert!(parse("[".repeat(1 << 20).as_bytes()).unwrap_err().what.contains("nested"));
        let many = format!("[{}0]", "0,".repeat(1 << 20));
        assert!(parse(many.as_bytes()).unwrap_err().what.contains("values"));
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced() {
        for (text, wanted) in [
            (r#""\ud83e\udd8a""#, "\u{1f98a}"),
            (r#""\ud83e""#, "\u{fffd}"),
            (r#""\udd8a!""#, "\u{fffd}!"),
            (r#""\ud83e\u0041""#, "\u{fffd}A"),
            (r#""\ud83ex""#, "\u{fffd}x"),
        ] {
            assert!(matches!(&parse(text.as_bytes()).unwrap().kind, Kind::String(s) if s == wanted), "{text}");
        }
    }

    #[test]
    fn plain_strings_are_borrowed() {
        let node = parse(b"\"iVBORw0KGgo=\"").unwrap();
        assert!(matches!(node.kind, Kind::String(Cow::Borrowed(_))));
    }
}
