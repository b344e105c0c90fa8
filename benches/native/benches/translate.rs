//! How fast each path translates: an engine's stream to a client's, a client's request to an engine's; and how much memory
//! an image takes on its way.
//!
//! `cargo bench -p blazar-benches --bench translate` measures and prints the target beside it; `-- --smoke` only shows that
//! it runs; `-- --once PATH` runs one path once, for `valgrind --tool=callgrind`. Recorded so, for 10,000 chunks and the
//! making of them: text 82.7 million instructions, reasoning 88.3, arguments 113.6, logprobs 209.5.
use std::{env, fs, hint::black_box, time::Instant};

use blazar_core::{
    dialect::{Route, Stamp},
    engine::Family,
    exchange::{Exchange, Phase},
};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const READ: usize = 64 * 1024;
const TARGET_MB_S: f64 = 300.0;
const IMAGE: usize = 10 * 1024 * 1024;

struct Path {
    name: &'static str,
    /// Further members of the request.
    asks: &'static str,
    /// What a chunk's choice holds beside its index.
    pieces: &'static [&'static str],
}

const PATHS: [Path; 4] = [
    Path {
        name: "text",
        asks: "",
        pieces: &[
            r#""delta":{"content":" because"},"finish_reason":null"#,
            r#""delta":{"content":" of"},"finish_reason":null"#,
            r#""delta":{"content":"\n"},"finish_reason":null"#,
            r#""delta":{"content":" café 😀"},"finish_reason":null"#,
        ],
    },
    Path {
        name: "reasoning",
        asks: "",
        pieces: &[
            r#""delta":{"reasoning_content":" let me"},"finish_reason":null"#,
            r#""delta":{"reasoning_content":" see \"x\""},"finish_reason":null"#,
        ],
    },
    Path {
        name: "arguments",
        asks: r#","tools":[{"type":"function","function":{"name":"f"}}]"#,
        pieces: &[
            r#""delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]},"finish_reason":null"#,
            r#""delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"b c\","}}]},"finish_reason":null"#,
        ],
    },
    Path {
        name: "logprobs",
        asks: r#","logprobs":true,"top_logprobs":2"#,
        pieces: &[
            r#""delta":{"content":" a"},"logprobs":{"content":[{"token":" a","logprob":-0.5,"bytes":[32,97],"top_logprobs":[{"token":" a","logprob":-0.5,"bytes":[32,97]},{"token":" b","logprob":-1.5,"bytes":[32,98]}]}]},"finish_reason":null"#,
        ],
    },
];

fn stream(path: &Path, chunks: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut event = |inner: &str| {
        out.extend_from_slice(
            format!(
                "data: {{\"choices\":[{{\"index\":0,{inner}}}],\"created\":1796109036,\
                 \"id\":\"chatcmpl-IAA0bzwoxd9CKtDUMwHNY6ESvNob67wz\",\"model\":\"tiny\",\
                 \"system_fingerprint\":\"b0-unknown\",\"object\":\"chat.completion.chunk\"}}\n\n"
            )
            .as_bytes(),
        );
    };
    if path.name == "arguments" {
        event(
            r#""delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]},"finish_reason":null"#,
        );
    }
    for number in 0..chunks {
        event(path.pieces[number % path.pieces.len()]);
    }
    out
}

fn request(route: &str, asks: &str) -> Vec<u8> {
    let what = if route == "openai.responses" {
        r#""input":"hi""#.to_owned()
    } else {
        format!(r#""messages":[{{"role":"user","content":"hi"}}]{asks}"#)
    };
    format!(r#"{{"model":"m","stream":true,"max_tokens":9000,{what}}}"#).into_bytes()
}

fn exchange(name: &str, asks: &str) -> Exchange {
    let route = Route::from_name(name).expect("a route");
    let request = route.parse(&request(name, asks)).expect("the body is right");
    let stamp = Stamp { id: "0123456789abcdef0123456789abcdef".into(), created_ns: 1, started_ns: 0, load_ns: 0 };
    let encoder = route.encoder(&request, stamp);
    Exchange::new(&request, Family::Llama, "m", "127.0.0.1:1", "secret", encoder).expect("it can be encoded").1
}

/// Feed it once; the client's bytes.
fn run(name: &str, path: &Path, bytes: &[u8], out: &mut Vec<u8>) -> usize {
    let mut exchange = exchange(name, path.asks);
    exchange.feed(HEAD, 0, out);
    let mut given = 0;
    for piece in bytes.chunks(READ) {
        exchange.feed(black_box(piece), 1, out);
        given += out.len();
        out.clear();
    }
    assert_ne!(exchange.phase(), Phase::Failed);
    given
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn mb_s(bytes: usize, seconds: f64) -> f64 {
    bytes as f64 / 1e6 / seconds
}

fn streams(chunks: usize, rounds: usize) {
    println!("{:<14}{:<22}{:>14}{:>14}", "stream", "dialect", "in, MB/s", "out, MB/s");
    for path in &PATHS {
        let bytes = stream(path, chunks);
        for name in ["openai.chat", "openai.responses", "ollama.chat", "anthropic.messages"] {
            // Ollama's calls come whole at their end, and Anthropic's thinking is asked for in another way.
            let apart = [("logprobs", "openai.responses"), ("logprobs", "ollama.chat"), ("arguments", "ollama.chat")];
            if apart.contains(&(path.name, name)) || name == "anthropic.messages" && path.name != "text" {
                continue;
            }
            let (mut best, mut given) = (f64::INFINITY, 0);
            let mut out = Vec::with_capacity(1 << 20);
            for _ in 0..rounds {
                let start = Instant::now();
                given = run(name, path, &bytes, &mut out);
                best = best.min(start.elapsed().as_secs_f64());
            }
            let speed = mb_s(bytes.len(), best);
            let target = match path.name {
                "text" if name == "openai.chat" => format!("   (target {TARGET_MB_S})"),
                _ => String::new(),
            };
            println!("{:<14}{name:<22}{speed:>14.0}{:>14.0}{target}", path.name, mb_s(given, best));
        }
    }
}

/// A conversation of an agent: 30 tools with schemas, 40 turns.
fn conversation() -> serde_json::Value {
    let tools: Vec<_> = (0..30)
        .map(|n| {
            serde_json::json!({"type": "function", "function": {"name": format!("tool_{n}"),
                "description": "Does what its name says, at some length. ".repeat(10),
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}}}})
        })
        .collect();
    let turns: Vec<_> = (0..40)
        .map(|n| {
            serde_json::json!({"role": if n % 2 == 0 { "user" } else { "assistant" },
                "content": "Some words with \"quotes\" and\nnew lines. ".repeat(20)})
        })
        .collect();
    serde_json::json!({"model": "m", "messages": turns, "tools": tools, "stream": true})
}

fn requests(rounds: usize) {
    println!("\n{:<14}{:<22}{:>14}{:>14}", "request", "dialect", "bytes", "MB/s");
    let agent = conversation().to_string().into_bytes();
    for (what, name, body) in [
        ("small", "openai.chat", request("openai.chat", "")),
        ("small", "anthropic.messages", request("anthropic.messages", "")),
        ("agent", "openai.chat", agent),
    ] {
        let route = Route::from_name(name).expect("a route");
        let mut best = f64::INFINITY;
        for _ in 0..rounds {
            let start = Instant::now();
            let parsed = route.parse(black_box(&body)).expect("the body is right");
            black_box(Family::Llama.encode(&parsed, "m").expect("it can be encoded"));
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!("{what:<14}{name:<22}{:>14}{:>14.0}", body.len(), mb_s(body.len(), best));
    }
}

/// The most memory that this process ever had, bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or(0) * 1024
}

/// An image request of 10 MB: how often the image is in memory, at most.
fn image() {
    // Written in place, so that the process never had more than this before.
    let start = br#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo"#;
    let mut body = Vec::with_capacity(IMAGE + 1024);
    body.extend_from_slice(start);
    body.resize(body.len() + IMAGE - 12, b'A');
    body.extend_from_slice(br#"="}}]}]}"#);
    let before = peak();
    let parsed = Route::OpenaiChat.parse(&body).expect("the body is right");
    let read = peak() - before;
    drop(body);
    let stamp = Stamp { id: "0123456789abcdef0123456789abcdef".into(), created_ns: 1, started_ns: 0, load_ns: 0 };
    let encoder = Route::OpenaiChat.encoder(&parsed, stamp);
    let (bytes, _) = Exchange::new(&parsed, Family::Llama, "m", "h", "s", encoder).expect("it can be encoded");
    let (all, images) = (peak() - before, |bytes: usize| mb_s(bytes, 1.0) / mb_s(IMAGE, 1.0));
    println!(
        "\nimage of 10 MB: reading it takes {:.2} images of memory beyond the body, translating it {:.2} in all",
        images(read),
        images(all)
    );
    println!("(the body itself is one more while it is read, and gone when the engine's is written)");
    assert!(bytes.len() > IMAGE);
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--once") {
        let wanted = arguments.get(at + 1).map_or("text", String::as_str);
        let path = PATHS.iter().find(|path| path.name == wanted).expect("one of text, reasoning, arguments, logprobs");
        run("openai.chat", path, &stream(path, 10_000), &mut Vec::new());
        return;
    }
    let smoke = arguments.iter().any(|argument| argument == "--smoke");
    image();
    streams(if smoke { 500 } else { 50_000 }, if smoke { 1 } else { 10 });
    requests(if smoke { 1 } else { 200 });
}
