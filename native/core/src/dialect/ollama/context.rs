//! `context` of `/api/generate`: numbers that a client hands back to go on with a conversation. Ollama's are the tokens of
//! the prompt and of the answer; ours are the conversation itself, three bytes to a number, so that they need no engine, and
//! mean the same to every model.
use crate::chat::{Part, Role, Turn};
use crate::dialect::json::Node;
use crate::dialect::read::{Read, Under, array, bad, each, integer};
use crate::dialect::write::{int, string};

/// The first number: no vocabulary has such a token.
const MARK: i64 = 0x00FF_B1A2;

/// `[mark,…]` for a conversation (JSON, from [`json`]) and the answer to it.
pub(super) fn write(said: &str, answer: &str, out: &mut Vec<u8>) {
    let mut bytes = said.as_bytes().to_vec();
    if !answer.is_empty() {
        bytes.pop();
        bytes.extend_from_slice(if bytes.len() > 1 { b"," } else { b"" });
        bytes.extend_from_slice(b"{\"role\":\"assistant\",\"content\":");
        string(answer, &mut bytes);
        bytes.extend_from_slice(b"}]");
    }
    out.push(b'[');
    int(MARK, out);
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        out.push(b',');
        int(number, out);
    }
    out.push(b']');
}

/// The conversation as JSON: texts only, as Ollama writes messages. `None`: there is more in it than text.
pub(super) fn json(turns: &[Turn]) -> Option<String> {
    let mut out = b"[".to_vec();
    for turn in turns {
        let [Part::Text(text)] = turn.parts.as_slice() else { return None };
        let role = match turn.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => return None,
        };
        out.extend_from_slice(if out.len() > 1 { b",{\"role\":" } else { b"{\"role\":" });
        string(role, &mut out);
        out.extend_from_slice(b",\"content\":");
        string(text, &mut out);
        out.push(b'}');
    }
    out.push(b']');
    String::from_utf8(out).ok()
}

/// The conversation that `context` stands for.
pub(super) fn read(context: &[Node<'_>]) -> Read<Vec<Turn>> {
    const FOREIGN: &str =
        "These numbers are not of this server, or not all of them; send the conversation to /api/chat.";
    let Some((mark, rest)) = context.split_first() else { return Ok(Vec::new()) };
    if integer(mark).under_index(0)? != MARK {
        return bad("", FOREIGN);
    }
    let mut bytes = Vec::with_capacity(rest.len() * 3);
    for (at, node) in rest.iter().enumerate() {
        match u32::try_from(integer(node).under_index(at + 1)?) {
            // The last number may stand for fewer.
            Ok(number) if number < 1 << 24 => {
                let [_, three @ ..] = number.to_be_bytes();
                let skip = if at + 1 == rest.len() { three.iter().take_while(|byte| **byte == 0).count() } else { 0 };
                bytes.extend_from_slice(&three[skip..]);
            }
            _ => return bad("", FOREIGN),
        }
    }
    let Ok(node) = crate::dialect::json::parse(&bytes) else { return bad("", FOREIGN) };
    array(&node).and_then(|items| each(items, super::request::message)).or_else(|_| bad("", FOREIGN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Prompt;
    use crate::dialect::Route;
    use proptest::prelude::*;

    fn turns(request: &crate::chat::Request) -> Vec<(Role, String)> {
        let Prompt::Chat(turns) = &request.prompt else { panic!("a chat") };
        let text = |turn: &Turn| match turn.parts.as_slice() {
            [Part::Text(text)] => text.clone(),
            other => panic!("{other:?}"),
        };
        turns.iter().map(|turn| (turn.role, text(turn))).collect()
    }

    fn generate(context: &str) -> Result<crate::chat::Request, crate::dialect::BadBody> {
        let body = format!(r#"{{"model":"m","prompt":"And?","context":{context}}}"#);
        Route::OllamaGenerate.parse(body.as_bytes())
    }

    proptest! {
        #[test]
        fn it_comes_back_as_it_went(asked in ".{1,9}", answered in ".{0,9}") {
            let said = json(&[Turn { role: Role::User, parts: vec![Part::Text(asked.clone())] }]).unwrap();
            let mut out = Vec::new();
            write(&said, &answered, &mut out);
            let back = turns(&generate(std::str::from_utf8(&out).unwrap()).unwrap());
            let mut expected = vec![(Role::User, asked)];
            if !answered.is_empty() {
                expected.push((Role::Assistant, answered));
            }
            expected.push((Role::User, "And?".into()));
            prop_assert_eq!(back, expected);
        }
    }

    #[test]
    fn foreign_and_damaged_ones_are_refused() {
        for context in ["[1,2,3]", "[16757154]", "[16757154,1]", "[16757154,99999999999]", "[16757154,-1]"] {
            let refused = generate(context).unwrap_err();
            assert_eq!(refused.path, "context", "{context}");
        }
        assert_eq!(generate("[]").unwrap().shape.said.as_deref(), Some(r#"[{"role":"user","content":"And?"}]"#));
    }
}
