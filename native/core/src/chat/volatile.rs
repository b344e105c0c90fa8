//! Lines that agents put in front of their instructions and that differ from request to request. An engine that has read
//! the instructions before would have to read all of them again for their sake.
use super::{Part, Prompt, Request, Role};

/// How such lines begin: `x-anthropic-billing-header: cc_version=...; cch=...`, which Claude Code sends.
const NAMES: [&str; 1] = ["x-anthropic-billing-header"];

/// Take them out of `request`; their names.
pub fn take_out(request: &mut Request) -> Vec<&'static str> {
    let mut taken = Vec::new();
    let Prompt::Chat(turns) = &mut request.prompt else { return taken };
    let Some(first) = turns.first_mut().filter(|turn| turn.role == Role::System) else { return taken };
    first.parts.retain_mut(|part| {
        let Part::Text(text) = part else { return true };
        while let Some(name) = NAMES.into_iter().find(|name| begins_with(text, name)) {
            taken.push(name);
            let end = text.find('\n').map_or(text.len(), |at| at + 1);
            text.drain(..end);
        }
        !text.is_empty()
    });
    if first.parts.is_empty() {
        turns.remove(0);
    }
    taken
}

fn begins_with(text: &str, name: &str) -> bool {
    text.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Turn;

    fn after(texts: &[&str]) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let parts = texts.iter().map(|text| Part::Text((*text).to_owned())).collect();
        let system = Turn { role: Role::System, parts };
        let user = Turn { role: Role::User, parts: vec![Part::Text("x-anthropic-billing-header: mine".into())] };
        let mut request = Request::new("m", Prompt::Chat(vec![system, user]));
        let taken = take_out(&mut request);
        let Prompt::Chat(turns) = request.prompt else { panic!("a chat") };
        let said = |turn: &Turn| {
            turn.parts
                .iter()
                .map(|part| if let Part::Text(text) = part { text.clone() } else { String::new() })
                .collect()
        };
        (taken, turns.iter().map(said).collect())
    }

    #[test]
    fn only_such_lines_at_the_front_of_the_instructions_go() {
        let mine = "x-anthropic-billing-header: mine".to_owned();
        let (taken, turns) = after(&["x-anthropic-billing-header: a=1;", "You are kind."]);
        assert_eq!((taken.len(), turns), (1, vec![vec!["You are kind.".to_owned()], vec![mine.clone()]]));
        let (taken, turns) = after(&["x-anthropic-billing-header: a=1;\nBe kind.\nx-anthropic-billing-header: no"]);
        assert_eq!(taken, ["x-anthropic-billing-header"]);
        assert_eq!(turns[0], ["Be kind.\nx-anthropic-billing-header: no"]);
        let (taken, turns) = after(&["x-anthropic-billing-header: alone"]);
        assert_eq!((taken.len(), turns), (1, vec![vec![mine]]));
        assert_eq!(after(&["x-anthropic-billing-headers of mine"]).0.len(), 0);
    }
}
