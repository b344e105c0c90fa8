//! What two requests must share before the answer to one may be given to the other.
use super::request::{Format, Part, Prompt, Request, Role};

/// A request, split into the text that may differ a little and all the rest, which may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Likeness {
    /// The last thing that the person said.
    pub text: String,
    /// Everything else, and the numbers in the text: what is asked of 7 is not what is asked of 8, however alike it is.
    pub rest: String,
}

impl Request {
    /// How it may be compared with others, or why it may not.
    ///
    /// # Errors
    /// What keeps its answer from being given to anybody else, in few words.
    pub fn likeness(&self) -> Result<Likeness, &'static str> {
        if self.stream {
            return Err("a stream");
        }
        if !self.tools.is_empty() {
            return Err("tools");
        }
        if !matches!(self.format, Format::Text) || self.sampling.grammar.is_some() {
            return Err("a shape is asked for");
        }
        if self.shape.response.is_some() || self.shape.said.is_some() || self.load_only {
            return Err("its answer repeats the request");
        }
        let mut rest = self.clone();
        let text = match &mut rest.prompt {
            Prompt::Chat(turns) => {
                let foreign = |part: &Part| !matches!(part, Part::Text(_) | Part::Reasoning { .. });
                if turns.iter().any(|turn| turn.role == Role::Tool || turn.parts.iter().any(foreign)) {
                    return Err("more than text in it");
                }
                match turns.last_mut() {
                    Some(last) if last.role == Role::User => said(std::mem::take(&mut last.parts)),
                    _ => return Err("the person does not speak last"),
                }
            }
            Prompt::Text { prompt, suffix: None, echo: false } => std::mem::take(prompt),
            _ => return Err("not one text"),
        };
        if text.trim().is_empty() {
            return Err("no text");
        }
        Ok(Likeness { rest: format!("{:?}\n{rest:?}", numbers(&text)), text })
    }
}

fn said(parts: Vec<Part>) -> String {
    let mut text = String::new();
    for part in parts {
        if let Part::Text(piece) = part {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&piece);
        }
    }
    text
}

fn numbers(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_numeric()).filter(|digits| !digits.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use crate::dialect::Route;

    fn of(body: &str) -> Result<(String, String), &'static str> {
        let request = Route::OpenaiChat.parse(body.as_bytes()).expect("a request");
        request.likeness().map(|like| (like.text, like.rest))
    }

    fn chat(said: &str, more: &str) -> String {
        format!(
            r#"{{"model":"m","messages":[{{"role":"system","content":"s"}},{{"role":"user","content":"{said}"}}]{more}}}"#
        )
    }

    #[test]
    fn only_the_last_text_may_differ() {
        let (text, rest) = of(&chat("What is a cat?", "")).unwrap();
        assert_eq!(text, "What is a cat?");
        assert_eq!(rest, of(&chat("What are cats?", "")).unwrap().1);
        for more in [r#","temperature":0.5"#, r#","max_tokens":5"#, r#","stop":["x"]"#, r#","n":2"#, r#","seed":1"#] {
            assert_ne!(rest, of(&chat("What is a cat?", more)).unwrap().1, "{more}");
        }
        assert_ne!(rest, of(&chat("What is a cat?", "").replace("\"s\"", "\"t\"")).unwrap().1);
    }

    #[test]
    fn numbers_in_it_may_not() {
        let (_, rest) = of(&chat("2 and 3", "")).unwrap();
        assert_eq!(rest, of(&chat("2 plus 3", "")).unwrap().1);
        assert_ne!(rest, of(&chat("2 and 4", "")).unwrap().1);
        assert_ne!(rest, of(&chat("3 and 2", "")).unwrap().1);
    }

    #[test]
    fn what_is_nobody_elses() {
        let tools = r#","tools":[{"type":"function","function":{"name":"f"}}]"#;
        assert_eq!(of(&chat("x", r#","stream":true"#)), Err("a stream"));
        assert_eq!(of(&chat("x", tools)), Err("tools"));
        assert_eq!(of(&chat("x", r#","response_format":{"type":"json_object"}"#)), Err("a shape is asked for"));
        assert_eq!(of(&chat(" ", "")), Err("no text"));
        let last = r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
        assert_eq!(of(last), Err("the person does not speak last"));
        let picture = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}"#;
        assert_eq!(of(picture), Err("more than text in it"));
    }
}
