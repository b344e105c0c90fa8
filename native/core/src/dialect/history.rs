//! Earlier calls and their results: who answers whom.
use std::collections::{HashMap, VecDeque};

use crate::chat::{Part, Turn};

/// Give every call an id, and every result the id and the name of the call that it answers: by its id, else by its name,
/// else the oldest that has no answer.
pub(crate) fn pair(turns: &mut [Turn]) {
    let mut waiting = Waiting::default();
    for part in turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        match part {
            Part::Call { id, name, .. } => {
                if id.is_empty() {
                    *id = format!("call_{}", waiting.calls.len());
                }
                waiting.called(id, name);
            }
            Part::Result { id, name, .. } => waiting.answered(id, name),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Waiting {
    calls: Vec<Asked>,
    by_id: HashMap<String, usize>,
    by_name: HashMap<String, VecDeque<usize>>,
    oldest: usize,
    strays: usize,
}

struct Asked {
    id: String,
    name: String,
    answered: bool,
}

impl Waiting {
    fn called(&mut self, id: &str, name: &str) {
        let at = self.calls.len();
        self.calls.push(Asked { id: id.to_owned(), name: name.to_owned(), answered: false });
        self.by_id.insert(id.to_owned(), at);
        self.by_name.entry(name.to_owned()).or_default().push_back(at);
    }

    fn answered(&mut self, id: &mut String, name: &mut Option<String>) {
        let found = if id.is_empty() { self.unanswered(name.as_deref()) } else { self.by_id.get(id).copied() };
        if let Some(asked) = found.and_then(|at| self.calls.get_mut(at)) {
            asked.answered = true;
            id.clone_from(&asked.id);
            name.get_or_insert_with(|| asked.name.clone());
        } else if id.is_empty() {
            *id = format!("call_stray_{}", self.strays);
            self.strays += 1;
        }
    }

    fn unanswered(&mut self, name: Option<&str>) -> Option<usize> {
        if let Some(queue) = name.and_then(|name| self.by_name.get_mut(name)) {
            while let Some(at) = queue.pop_front() {
                if !self.calls[at].answered {
                    return Some(at);
                }
            }
        }
        if name.is_some_and(|name| !name.is_empty()) {
            return None;
        }
        while self.calls.get(self.oldest)?.answered {
            self.oldest += 1;
        }
        Some(self.oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Role;

    fn call(id: &str, name: &str) -> Part {
        Part::Call { id: id.into(), name: name.into(), arguments: "{}".into() }
    }

    fn result(id: &str, name: Option<&str>) -> Part {
        Part::Result { id: id.into(), name: name.map(Into::into), text: String::new(), is_error: false }
    }

    fn paired(parts: Vec<Part>) -> Vec<(String, String)> {
        let mut turns = [Turn { role: Role::Tool, parts }];
        pair(&mut turns);
        let [turn] = turns;
        let all = turn.parts.into_iter().filter_map(|part| match part {
            Part::Result { id, name, .. } => Some((id, name.unwrap_or_default())),
            _ => None,
        });
        all.collect()
    }

    #[test]
    fn results_find_their_calls() {
        let by_id = paired(vec![call("a", "f"), call("b", "g"), result("b", None), result("a", None)]);
        assert_eq!(by_id, [("b".into(), "g".into()), ("a".into(), "f".into())]);
        let by_name =
            paired(vec![call("", "f"), call("", "g"), call("", "f"), result("", Some("g")), result("", Some("f"))]);
        assert_eq!(by_name, [("call_1".into(), "g".into()), ("call_0".into(), "f".into())]);
        let by_order = paired(vec![call("x", "f"), call("y", "f"), result("x", None), result("", None)]);
        assert_eq!(by_order, [("x".into(), "f".into()), ("y".into(), "f".into())]);
        let strays = paired(vec![call("x", "f"), result("z", None), result("", Some("h")), result("", Some("h"))]);
        assert_eq!(strays[0].0, "z");
        assert_ne!(strays[1].0, strays[2].0);
    }
}
