//! From a template's text to its tree. The language is Go's `text/template`, as far as templates of models use it.
use super::{Broken, broken};

/// Deeper nesting is no model's template.
const DEPTH: usize = 64;

/// One piece of a template.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(String),
    Put(Pipe),
    /// The conditions in their order, each with what then follows, and what follows when none holds.
    If(Vec<(Pipe, Vec<Self>)>, Vec<Self>),
    Range {
        key: Option<String>,
        value: Option<String>,
        over: Pipe,
        body: Vec<Self>,
        otherwise: Vec<Self>,
    },
    With(Pipe, Vec<Self>, Vec<Self>),
    /// `new`: declared here, else set where it was declared.
    Let {
        name: String,
        pipe: Pipe,
        new: bool,
    },
    Break,
    Continue,
}

/// Commands, each of which gets the value of the one before as its last argument.
#[derive(Debug, Clone)]
pub(super) struct Pipe(pub Vec<Vec<Term>>);

/// A value, and the fields that are taken of it.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub base: Base,
    pub fields: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) enum Base {
    Dot,
    /// `$` alone.
    Root,
    Variable(String),
    Text(String),
    Number(f64),
    Bool(bool),
    Nil,
    Function(String),
    Group(Pipe),
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Variable(String),
    Field(String),
    /// `.` alone.
    Dot,
    Text(String),
    Number(f64),
    Open,
    /// With the fields that follow it at once.
    Close,
    Pipe,
    Comma,
    Declare,
    Set,
    /// A field that belongs to what stands right before it.
    Member(String),
}

/// The tree of a whole template.
pub(super) fn parse(source: &str) -> Result<Vec<Node>, Broken> {
    let mut parser = Parser { pieces: pieces(source)?.into_iter(), depth: 0 };
    let (nodes, end) = parser.block()?;
    match end {
        None => Ok(nodes),
        Some(tokens) => broken(format!("there is an {{{{{}}}}} too many", words(&tokens))),
    }
}

enum Piece {
    Text(String),
    Action(Vec<Token>),
}

/// Texts and actions in turn, with the white space gone that `{{-` and `-}}` take away, and without comments.
fn pieces(source: &str) -> Result<Vec<Piece>, Broken> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut trims = false;
    while let Some(at) = rest.find("{{") {
        let (text, action) = (&rest[..at], &rest[at + 2..]);
        let text = if trims { text.trim_start() } else { text };
        let left = action.strip_prefix('-').filter(|after| after.starts_with(char::is_whitespace));
        push(&mut found, if left.is_some() { text.trim_end() } else { text });
        let action = left.unwrap_or(action);
        let Some(end) = end_of(action) else { return broken("an action is not closed") };
        let inner = &action[..end];
        let right = inner.strip_suffix('-').filter(|before| before.ends_with(char::is_whitespace));
        trims = right.is_some();
        let inner = right.unwrap_or(inner).trim();
        if !(inner.starts_with("/*") && inner.ends_with("*/")) {
            found.push(Piece::Action(tokens(inner)?));
        }
        rest = &action[end + 2..];
    }
    push(&mut found, if trims { rest.trim_start() } else { rest });
    Ok(found)
}

fn push(found: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        found.push(Piece::Text(text.to_owned()));
    }
}

/// Where the `}}` stands that is in no string and no comment.
fn end_of(action: &str) -> Option<usize> {
    if action.trim_start().starts_with("/*") {
        let after = action.find("*/")?;
        return action[after..].find("}}").map(|at| after + at);
    }
    let bytes = action.as_bytes();
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (None, b'}') if bytes.get(at + 1) == Some(&b'}') => return Some(at),
            (None, mark @ (b'"' | b'`')) => quote = Some(mark),
            (Some(b'"'), b'\\') => at += 1,
            (Some(open), mark) if open == mark => quote = None,
            _ => {}
        }
        at += 1;
    }
    None
}

fn tokens(text: &str) -> Result<Vec<Token>, Broken> {
    let mut found: Vec<Token> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (one, taken) = match first {
            c if c.is_whitespace() => {
                rest = &rest[c.len_utf8()..];
                continue;
            }
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '|' => (Token::Pipe, 1),
            ',' => (Token::Comma, 1),
            ':' if rest.starts_with(":=") => (Token::Declare, 2),
            '=' => (Token::Set, 1),
            '"' | '`' => quoted(rest)?,
            '$' => {
                let name = name_of(&rest[1..]);
                (Token::Variable(name.to_owned()), 1 + name.len())
            }
            '.' => {
                let name = name_of(&rest[1..]);
                let joined = text.len() > rest.len()
                    && text[..text.len() - rest.len()].ends_with(|c: char| !c.is_whitespace() && c != '(');
                match name {
                    "" => (Token::Dot, 1),
                    name if joined => (Token::Member(name.to_owned()), 1 + name.len()),
                    name => (Token::Field(name.to_owned()), 1 + name.len()),
                }
            }
            c if c.is_ascii_digit() || c == '-' || c == '+' => number(rest)?,
            c if c.is_alphabetic() || c == '_' => {
                let name = name_of(rest);
                (Token::Word(name.to_owned()), name.len())
            }
            other => return broken(format!("{other:?} is not understood in an action")),
        };
        found.push(one);
        rest = &rest[taken..];
    }
    Ok(found)
}

fn name_of(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

fn number(text: &str) -> Result<(Token, usize), Broken> {
    let end = text[1..].find(|c: char| !c.is_ascii_digit() && c != '.').map_or(text.len(), |at| at + 1);
    match text[..end].parse() {
        Ok(value) => Ok((Token::Number(value), end)),
        Err(_) => broken(format!("{:?} is no number", &text[..end])),
    }
}

fn quoted(text: &str) -> Result<(Token, usize), Broken> {
    if let Some(inner) = text.strip_prefix('`') {
        return match inner.find('`') {
            Some(end) => Ok((Token::Text(inner[..end].to_owned()), end + 2)),
            None => broken("a string is not closed"),
        };
    }
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((Token::Text(value), at + 1)),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, c @ ('"' | '\\' | '\''))) => value.push(c),
                _ => return broken("a string has an escape that is not understood"),
            },
            c => value.push(c),
        }
    }
    broken("a string is not closed")
}

struct Parser {
    pieces: std::vec::IntoIter<Piece>,
    depth: usize,
}

/// The action that ended a block; none at the end of the template.
type End = Option<Vec<Token>>;

impl Parser {
    /// Everything up to an `end`, an `else` or the template's end.
    fn block(&mut self) -> Result<(Vec<Node>, End), Broken> {
        self.depth += 1;
        if self.depth > DEPTH {
            return broken("it is nested too deeply");
        }
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let tokens = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action(tokens) => tokens,
            };
            let word = if let Some(Token::Word(word)) = tokens.first() { word.as_str() } else { "" };
            match word {
                "end" | "else" => {
                    self.depth -= 1;
                    return Ok((nodes, Some(tokens)));
                }
                "if" => nodes.push(self.conditions(&tokens[1..])?),
                "range" => nodes.push(self.range(&tokens[1..])?),
                "with" => {
                    let pipe = pipe(&tokens[1..])?;
                    let (body, otherwise) = self.branches()?;
                    nodes.push(Node::With(pipe, body, otherwise));
                }
                "break" => nodes.push(Node::Break),
                "continue" => nodes.push(Node::Continue),
                "define" | "template" | "block" => return broken(format!("{word} is not supported")),
                _ => nodes.push(action(&tokens)?),
            }
        }
        self.depth -= 1;
        Ok((nodes, None))
    }

    fn conditions(&mut self, first: &[Token]) -> Result<Node, Broken> {
        let mut cases = Vec::new();
        let mut condition = pipe(first)?;
        loop {
            let (body, end) = self.block()?;
            cases.push((condition, body));
            match end.as_deref() {
                Some([Token::Word(word)]) if word == "end" => return Ok(Node::If(cases, Vec::new())),
                Some([_, Token::Word(word), rest @ ..]) if word == "if" => condition = pipe(rest)?,
                Some([Token::Word(word)]) if word == "else" => return Ok(Node::If(cases, self.closed()?)),
                Some(other) => return broken(format!("{{{{{}}}}} is not understood", words(other))),
                None => return broken("an {{if}} is not closed"),
            }
        }
    }

    fn range(&mut self, tokens: &[Token]) -> Result<Node, Broken> {
        let (key, value, rest) = match tokens {
            [Token::Variable(key), Token::Comma, Token::Variable(value), Token::Declare, rest @ ..] => {
                (Some(key.clone()), Some(value.clone()), rest)
            }
            [Token::Variable(value), Token::Declare, rest @ ..] => (None, Some(value.clone()), rest),
            rest => (None, None, rest),
        };
        let over = pipe(rest)?;
        let (body, otherwise) = self.branches()?;
        Ok(Node::Range { key, value, over, body, otherwise })
    }

    fn branches(&mut self) -> Result<(Vec<Node>, Vec<Node>), Broken> {
        let (body, end) = self.block()?;
        match end.as_deref() {
            Some([Token::Word(word)]) if word == "end" => Ok((body, Vec::new())),
            Some([Token::Word(word)]) if word == "else" => Ok((body, self.closed()?)),
            Some(other) => broken(format!("{{{{{}}}}} is not understood", words(other))),
            None => broken("a block is not closed"),
        }
    }

    fn closed(&mut self) -> Result<Vec<Node>, Broken> {
        match self.block()? {
            (nodes, Some(end)) if end == [Token::Word("end".into())] => Ok(nodes),
            _ => broken("an {{else}} is not closed"),
        }
    }
}

fn action(tokens: &[Token]) -> Result<Node, Broken> {
    Ok(match tokens {
        [Token::Variable(name), mark @ (Token::Declare | Token::Set), rest @ ..] if !name.is_empty() => {
            Node::Let { name: name.clone(), pipe: pipe(rest)?, new: *mark == Token::Declare }
        }
        tokens => Node::Put(pipe(tokens)?),
    })
}

fn pipe(tokens: &[Token]) -> Result<Pipe, Broken> {
    let mut rest = tokens;
    let pipe = commands(&mut rest, 0)?;
    if rest.is_empty() { Ok(pipe) } else { broken("a bracket is closed that was never opened") }
}

/// Commands up to a closing bracket, which is left, or the end.
fn commands(rest: &mut &[Token], depth: usize) -> Result<Pipe, Broken> {
    if depth > DEPTH {
        return broken("it is nested too deeply");
    }
    let mut all = Vec::new();
    let mut terms: Vec<Term> = Vec::new();
    while let Some((token, after)) = rest.split_first() {
        if *token == Token::Close {
            break;
        }
        *rest = after;
        let base = match token {
            Token::Pipe => {
                all.push(std::mem::take(&mut terms));
                continue;
            }
            Token::Member(name) => match terms.last_mut() {
                Some(term) => {
                    term.fields.push(name.clone());
                    continue;
                }
                None => return broken(format!(".{name} belongs to nothing")),
            },
            Token::Field(name) => {
                terms.push(Term { base: Base::Dot, fields: vec![name.clone()] });
                continue;
            }
            Token::Open => {
                let inner = commands(rest, depth + 1)?;
                match rest.split_first() {
                    Some((Token::Close, after)) => *rest = after,
                    _ => return broken("a bracket is not closed"),
                }
                Base::Group(inner)
            }
            Token::Dot => Base::Dot,
            Token::Variable(name) if name.is_empty() => Base::Root,
            Token::Variable(name) => Base::Variable(name.clone()),
            Token::Text(text) => Base::Text(text.clone()),
            Token::Number(value) => Base::Number(*value),
            Token::Word(word) => match word.as_str() {
                "true" => Base::Bool(true),
                "false" => Base::Bool(false),
                "nil" => Base::Nil,
                _ => Base::Function(word.clone()),
            },
            Token::Close | Token::Comma | Token::Declare | Token::Set => {
                return broken("an action cannot be understood");
            }
        };
        terms.push(Term { base, fields: Vec::new() });
    }
    all.push(terms);
    if all.iter().any(Vec::is_empty) { broken("an action is empty") } else { Ok(Pipe(all)) }
}

fn words(tokens: &[Token]) -> String {
    match tokens.first() {
        Some(Token::Word(word)) => word.clone(),
        _ => String::from("action"),
    }
}
