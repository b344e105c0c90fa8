//! What of a JSON Schema the engine's grammar cannot hold an answer to. (It leaves such keywords out without a word:
//! `common/json-schema-to-grammar.cpp` of llama.cpp names those that it reads.)
use serde_json::{Map, Value};

/// Keywords that change which shapes are right, and of which the grammar knows nothing.
const SHAPES: [&str; 14] = [
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "$dynamicRef",
    "$recursiveRef",
];
/// Keywords that bound values within a right shape.
const VALUES: [&str; 6] = ["uniqueItems", "minContains", "maxContains", "multipleOf", "minProperties", "maxProperties"];
const BOUNDS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
/// Formats that the grammar has rules for; others are left out.
const FORMATS: [&str; 4] = ["date", "time", "date-time", "uuid"];
const DEPTH: usize = 64;

/// A keyword that the grammar leaves out, and where it lies; `shape` says that it changes which shapes are right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexpressed {
    /// As in `properties.age.multipleOf`.
    pub path: String,
    /// The keyword.
    pub keyword: String,
    /// It is one of those that no value in a right shape can satisfy by chance.
    pub shape: bool,
}

/// All of them, in the order of the text. Text that is no schema has none: the engine says what is wrong with it.
pub fn unexpressed(schema: &str) -> Vec<Unexpressed> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str(schema) {
        walk(&value, "", 0, &mut found);
    }
    found
}

fn walk(schema: &Value, path: &str, depth: usize, found: &mut Vec<Unexpressed>) {
    let Value::Object(fields) = schema else { return };
    if depth > DEPTH {
        return;
    }
    let under = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for (key, value) in fields {
        let here = under(key);
        match key.as_str() {
            "properties" | "$defs" | "definitions" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    walk(inner, &format!("{here}.{name}"), depth + 1, found);
                }
            }
            "items" | "additionalProperties" | "additionalItems" => walk(value, &here, depth + 1, found),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                for (at, inner) in value.as_array().into_iter().flatten().enumerate() {
                    walk(inner, &format!("{here}[{at}]"), depth + 1, found);
                }
            }
            _ => {
                if let Some(shape) = left_out(key, value, fields) {
                    found.push(Unexpressed { path: here, keyword: key.clone(), shape });
                }
            }
        }
    }
}

/// Whether the grammar leaves this keyword out, and then whether it is one of shape.
fn left_out(key: &str, value: &Value, fields: &Map<String, Value>) -> Option<bool> {
    let whole = fields.get("type").is_some_and(|kind| kind == "integer");
    if SHAPES.contains(&key) {
        Some(true)
    } else if VALUES.contains(&key) && *value != Value::Bool(false) || BOUNDS.contains(&key) && !whole {
        Some(false)
    } else if key == "pattern" {
        value.as_str().is_some_and(|pattern| !holds(pattern)).then_some(true)
    } else if key == "format" {
        let known = value.as_str().is_none_or(|format| FORMATS.contains(&format) || format.starts_with("uuid"));
        (!known).then_some(false)
    } else {
        None
    }
}

/// The grammar follows patterns that are anchored at both ends and escape nothing but signs; it takes `\d` for a letter,
/// and what it cannot read at all makes it let everything through.
fn holds(pattern: &str) -> bool {
    const SIGNS: &str = "^$.[]()|{}*+?-";
    let mut escaped = false;
    let sound = pattern.chars().all(|sign| {
        if escaped {
            escaped = false;
            return SIGNS.contains(sign);
        }
        escaped = sign == '\\';
        true
    });
    sound && pattern.starts_with('^') && pattern.ends_with('$') && !pattern.contains("(?") && pattern.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(schema: &str) -> Vec<(String, bool)> {
        unexpressed(schema).into_iter().map(|one| (one.path, one.shape)).collect()
    }

    #[test]
    fn what_the_grammar_reads_is_not_named() {
        let schema = r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/b"},"n":{"type":"integer","minimum":1},
            "s":{"type":["string","null"],"minLength":1,"pattern":"^a$"},"d":{"format":"date"},"not":{"const":1}},
            "required":["a"],"additionalProperties":false,"$defs":{"b":{"anyOf":[{"enum":[1]},{"type":"null"}]}}}"##;
        assert_eq!(told(schema), []);
    }

    #[test]
    fn patterns_are_held_or_named() {
        for (pattern, held) in [
            ("^a$", true),
            (r"^(a|b)+\.[0-9]{2}$", true),
            (r"^a\-b$", true),
            ("abc", false),
            ("^a", false),
            (r"^\d+$", false),
            (r"^hello there indeed\!$", false),
            ("^a(?=b)$", false),
            ("$", false),
        ] {
            let schema = serde_json::json!({"type": "string", "pattern": pattern}).to_string();
            assert_eq!(told(&schema).is_empty(), held, "{pattern}");
        }
    }

    #[test]
    fn what_it_leaves_out_is_named_with_its_place() {
        let schema = r#"{"properties":{"x":{"type":"number","minimum":0},"l":{"items":{"not":{"type":"null"}},
            "uniqueItems":true},"m":{"anyOf":[{"format":"email"},{"multipleOf":2}]},"f":{"uniqueItems":false}},
            "patternProperties":{"^a":{}}}"#;
        let wanted = [
            ("properties.x.minimum", false),
            ("properties.l.items.not", true),
            ("properties.l.uniqueItems", false),
            ("properties.m.anyOf[0].format", false),
            ("properties.m.anyOf[1].multipleOf", false),
            ("patternProperties", true),
        ];
        assert_eq!(told(schema), wanted.map(|(path, shape)| (path.to_owned(), shape)));
        assert_eq!(told("no json"), []);
    }
}
