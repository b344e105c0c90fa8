//! Reasoning that a model writes as text, between `<think>` and `</think>` at the front of its answer, where the engine did
//! not take it apart.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Where one answer stands. What is not certain yet is held.
#[derive(Debug, Default)]
pub struct Thoughts {
    place: Place,
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing visible came yet.
    #[default]
    Front,
    Inside,
    /// The answer proper: everything passes.
    Past,
}

/// What a piece of text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Reasoning(String),
    Text(String),
}

impl Thoughts {
    /// No reasoning will come as text: the engine takes it apart itself, or the answer began.
    pub fn is_past(&self) -> bool {
        self.place == Place::Past
    }

    /// The engine takes reasoning apart itself.
    pub fn pass(&mut self) {
        if self.held.is_empty() {
            self.place = Place::Past;
        }
    }

    /// What `text` brings to light.
    pub fn hear(&mut self, text: &str) -> Vec<Piece> {
        let mut out = Vec::new();
        if self.place == Place::Past {
            push(&mut out, Piece::Text(text.to_owned()));
            return out;
        }
        self.held.push_str(text);
        if self.place == Place::Front {
            let said = self.held.trim_start();
            if let Some(rest) = said.strip_prefix(OPEN) {
                self.held = rest.trim_start_matches('\n').to_owned();
                self.place = Place::Inside;
            } else if OPEN.starts_with(said) {
                return out;
            } else {
                self.place = Place::Past;
                out.push(Piece::Text(std::mem::take(&mut self.held)));
                return out;
            }
        }
        if let Some(at) = self.held.find(CLOSE) {
            let rest = self.held.split_off(at);
            push(&mut out, Piece::Reasoning(std::mem::take(&mut self.held)));
            push(&mut out, Piece::Text(rest[CLOSE.len()..].trim_start_matches('\n').to_owned()));
            self.place = Place::Past;
        } else {
            let rest = self.held.split_off(self.held.len() - unsure(&self.held));
            push(&mut out, Piece::Reasoning(std::mem::replace(&mut self.held, rest)));
        }
        out
    }

    /// The answer is over, or goes on with something else: what was held.
    pub fn release(&mut self) -> Option<Piece> {
        let held = std::mem::take(&mut self.held);
        let inside = self.place == Place::Inside;
        self.place = Place::Past;
        (!held.is_empty()).then_some(if inside { Piece::Reasoning(held) } else { Piece::Text(held) })
    }
}

fn push(out: &mut Vec<Piece>, piece: Piece) {
    let (Piece::Reasoning(text) | Piece::Text(text)) = &piece;
    if !text.is_empty() {
        out.push(piece);
    }
}

/// How many bytes at the end of `text` may be the beginning of the closing mark.
fn unsure(text: &str) -> usize {
    (1..CLOSE.len()).rev().find(|length| text.ends_with(&CLOSE[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heard<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut thoughts = Thoughts::default();
        let (mut reasoning, mut text) = (String::new(), String::new());
        let mut all: Vec<Piece> = pieces.into_iter().flat_map(|piece| thoughts.hear(piece)).collect();
        all.extend(thoughts.release());
        for piece in all {
            match piece {
                Piece::Reasoning(more) => reasoning.push_str(&more),
                Piece::Text(more) => text.push_str(&more),
            }
        }
        (reasoning, text)
    }

    #[test]
    fn thoughts_are_at_the_front_between_their_marks() {
        let told = |whole: &str| heard([whole]);
        assert_eq!(told("<think>\nhm</think>\n\nYes"), ("hm".into(), "Yes".into()));
        assert_eq!(told("\n<think>hm"), ("hm".into(), String::new()));
        assert_eq!(told("Yes <think>no</think>"), (String::new(), "Yes <think>no</think>".into()));
        assert_eq!(told("<thin"), (String::new(), "<thin".into()));
        assert_eq!(told("<think></think>a</think>"), (String::new(), "a</think>".into()));
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(inside in "[a<>/think\n]{0,20}", after in "[b<>/think\n]{0,20}", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let whole = format!("<think>{inside}</think>{after}");
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
            ends.extend([0, whole.len()]);
            ends.sort_unstable();
            let pieces: Vec<&str> = ends.windows(2).map(|pair| &whole[pair[0]..pair[1]]).collect();
            let (reasoning, text) = heard(pieces);
            let (first, second) = heard([whole.as_str()]);
            // Newlines right after a mark may be cut from it.
            prop_assert_eq!(reasoning.trim_start_matches('\n'), first.trim_start_matches('\n'));
            prop_assert_eq!(text.trim_start_matches('\n'), second.trim_start_matches('\n'));
        }
    }
}
