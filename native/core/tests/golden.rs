//! Dialogues kept as files, read by this test and by pytest: `tests/golden/dialogues/<name>/` holds `events.json` (what an
//! engine's answer means), `request.<route>.json`, and what the client must get, `stream.<route>.txt` and
//! `body.<route>.json`. Where there is an `engine.sse`, it is what llama-server sends for the same answer. `BLESS=1 cargo test` writes the expected files anew, to be read before they are committed.
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use blazar_core::chat::{Event, Fault, FaultKind, Finish, Request, Timings, TokenLogprob, Usage};
use blazar_core::dialect::{Route, Stamp};
use blazar_core::engine::Family;
use blazar_core::exchange::Exchange;
use serde::Deserialize;

const ROUTES: [&str; 6] =
    ["openai.chat", "openai.text", "openai.responses", "ollama.chat", "ollama.generate", "anthropic.messages"];
const MILLISECOND: u64 = 1_000_000;
const START: u64 = 5_000 * MILLISECOND;

/// One line of `events.json`.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    Start(u32),
    Reasoning(u32, String),
    Text(u32, String),
    CallStart(u32, u32, String, String),
    CallArguments(u32, u32, String),
    CallEnd(u32, u32),
    Logprobs(u32, Vec<Token>),
    Finish(u32, String, Option<String>),
    Usage {
        prompt: u64,
        cached: u64,
        completion: u64,
        reasoning: Option<u64>,
        prompt_ns: Option<u64>,
        predicted_ns: Option<u64>,
    },
    Fault(String),
    End,
}

#[derive(Deserialize)]
struct Token {
    token: String,
    logprob: f64,
    #[serde(default)]
    top: Vec<Token>,
}

impl Token {
    fn read(&self) -> TokenLogprob {
        TokenLogprob {
            token: self.token.clone(),
            logprob: self.logprob,
            bytes: Some(self.token.clone().into_bytes()),
            top: self.top.iter().map(Self::read).collect(),
        }
    }
}

impl Step {
    fn event(&self) -> Result<Event<'_>, Fault> {
        Ok(match self {
            Self::Start(choice) => Event::Start { choice: *choice },
            Self::Reasoning(choice, text) => Event::Reasoning { choice: *choice, text: text.into() },
            Self::Text(choice, text) => Event::Text { choice: *choice, text: text.into() },
            Self::CallStart(choice, call, id, name) => {
                Event::CallStart { choice: *choice, call: *call, id: id.into(), name: name.into() }
            }
            Self::CallArguments(choice, call, text) => {
                Event::CallArguments { choice: *choice, call: *call, text: text.into() }
            }
            Self::CallEnd(choice, call) => Event::CallEnd { choice: *choice, call: *call },
            Self::Logprobs(choice, tokens) => {
                Event::Logprobs { choice: *choice, tokens: tokens.iter().map(Token::read).collect() }
            }
            Self::Finish(choice, reason, stop) => Event::Finish {
                choice: *choice,
                reason: match reason.as_str() {
                    "stop" => Finish::Stop,
                    "length" => Finish::Length,
                    "tool_calls" => Finish::ToolCalls,
                    "content_filter" => Finish::ContentFilter,
                    other => panic!("no such reason: {other}"),
                },
                stop: stop.as_deref().map(Cow::Borrowed),
            },
            Self::Usage { prompt, cached, completion, reasoning, prompt_ns, predicted_ns } => Event::Usage {
                usage: Usage { prompt: *prompt, cached: *cached, completion: *completion, reasoning: *reasoning },
                timings: prompt_ns
                    .zip(*predicted_ns)
                    .map(|(prompt_ns, predicted_ns)| Timings { prompt_ns, predicted_ns }),
            },
            Self::Fault(message) => return Err(Fault::new(FaultKind::Cut, message.as_str())),
            Self::End => Event::End,
        })
    }
}

fn dialogues() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/dialogues");
    let mut found: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn asked(route: Route, body: &[u8], streams: bool) -> Request {
    Request { stream: streams, ..route.parse(body).unwrap() }
}

fn stamp() -> Stamp {
    Stamp {
        id: "0123456789abcdef0123456789abcdef".into(),
        created_ns: 1_785_576_600_000_000_000,
        started_ns: START,
        load_ns: 250 * MILLISECOND,
    }
}

/// The client's bytes for `steps`, of which each takes `tick`.
fn replay(route: Route, request: &Request, steps: &[Step], tick: u64) -> Vec<u8> {
    let mut encoder = route.encoder(request, stamp());
    let mut out = Vec::new();
    for (step, now_ns) in steps.iter().zip((1..).map(|n| START + 250 * MILLISECOND + n * tick)) {
        match step.event() {
            Ok(event) => encoder.event(&event, now_ns, &mut out),
            Err(fault) => encoder.fault(&fault, now_ns, &mut out),
        }
    }
    out
}

/// The client's bytes when the engine's come in `pieces`, all at one moment.
fn relay<'a>(route: Route, request: &Request, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let encoder = route.encoder(request, stamp());
    let (_, mut exchange) = Exchange::new(request, Family::Llama, "alias", "127.0.0.1", "", encoder).unwrap();
    let now_ns = START + 250 * MILLISECOND;
    let mut out = Vec::new();
    exchange.feed(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", now_ns, &mut out);
    for piece in pieces {
        exchange.feed(piece, now_ns, &mut out);
    }
    exchange.eof(now_ns, &mut out);
    assert_eq!(exchange.fault(), None);
    out
}

#[test]
fn an_engine_says_the_same_however_its_bytes_are_cut() {
    let mut compared = 0;
    for folder in dialogues() {
        let Ok(engine) = fs::read(folder.join("engine.sse")) else { continue };
        let steps: Vec<Step> = serde_json::from_slice(&fs::read(folder.join("events.json")).unwrap()).unwrap();
        for name in ["openai.chat", "openai.responses", "ollama.chat", "anthropic.messages"] {
            let Ok(body) = fs::read(folder.join(format!("request.{name}.json"))) else { continue };
            let route = Route::from_name(name).unwrap();
            for streams in [true, false] {
                let request = asked(route, &body, streams);
                let wanted = String::from_utf8(replay(route, &request, &steps, 0)).unwrap();
                let same = |got: Vec<u8>, cut: usize| {
                    assert_eq!(String::from_utf8(got).unwrap(), wanted, "{name} cut at {cut} of {}", folder.display());
                };
                for cut in 0..engine.len() {
                    same(relay(route, &request, [&engine[..cut], &engine[cut..]]), cut);
                }
                same(relay(route, &request, engine.chunks(1)), 1);
                compared += 1;
            }
        }
    }
    assert!(compared > 10, "only {compared} comparisons");
}

#[test]
fn every_dialogue_gives_its_clients_exactly_these_bytes() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut compared = 0;
    for folder in dialogues() {
        let steps: Vec<Step> = serde_json::from_slice(&fs::read(folder.join("events.json")).unwrap()).unwrap();
        for name in ROUTES {
            let Ok(body) = fs::read(folder.join(format!("request.{name}.json"))) else { continue };
            let route = Route::from_name(name).unwrap();
            for (streams, file) in [(true, format!("stream.{name}.txt")), (false, format!("body.{name}.json"))] {
                let path = folder.join(file);
                let got = String::from_utf8(replay(route, &asked(route, &body, streams), &steps, MILLISECOND)).unwrap();
                if bless {
                    fs::write(&path, &got).unwrap();
                }
                let wanted = fs::read_to_string(&path).unwrap();
                assert_eq!(got, wanted, "{}", path.display());
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "only {compared} comparisons: are the dialogues where this test looks?");
}
