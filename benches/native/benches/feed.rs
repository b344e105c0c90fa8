//! Nanoseconds for each of llama-server's chunks through `Exchange::feed`, by dialect and by the size of what a read gives.
//!
//! `cargo bench -p blazar-benches` measures; `-- --smoke` only shows that it runs.
use blazar_core::{
    dialect::{Route, Stamp},
    engine::Family,
    exchange::{Exchange, Phase},
};
use std::{env, hint::black_box, time::Instant};

const BODY: &[u8] = br#"{"model":"m","stream":true,"max_tokens":9000,"messages":[{"role":"user","content":"hi"}]}"#;
const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// One HTTP chunk with one event, as llama-server writes them.
fn event(delta: &str, finish: &str) -> Vec<u8> {
    let data = format!(
        "data: {{\"choices\":[{{\"finish_reason\":{finish},\"index\":0,\"delta\":{delta}}}],\"created\":1796109036,\
         \"id\":\"chatcmpl-IAA0bzwoxd9CKtDUMwHNY6ESvNob67wz\",\"model\":\"tiny\",\"system_fingerprint\":\"b0-unknown\",\
         \"object\":\"chat.completion.chunk\"}}\n\n"
    );
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

fn exchange(route: Route) -> Exchange {
    let request = route.parse(BODY).expect("the body is right");
    let stamp = Stamp { id: "0123456789abcdef0123456789abcdef".into(), created_ns: 1, started_ns: 0, load_ns: 0 };
    let encoder = route.encoder(&request, stamp);
    Exchange::new(&request, Family::Llama, "m", "127.0.0.1:1", "secret", encoder).expect("it can be encoded").1
}

/// The best of `rounds`: nanoseconds per chunk.
fn measure(route: Route, pieces: &[&[u8]], chunks: usize, rounds: usize) -> f64 {
    let mut out = Vec::with_capacity(1 << 20);
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let mut exchange = exchange(route);
        exchange.feed(HEAD, 0, &mut out);
        let start = Instant::now();
        for piece in pieces {
            exchange.feed(black_box(piece), 1, &mut out);
            black_box(&out);
            out.clear();
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let per_chunk = start.elapsed().as_nanos() as f64 / chunks as f64;
        assert_eq!(exchange.phase(), Phase::Body);
        best = best.min(per_chunk);
    }
    best
}

fn main() {
    let smoke = env::args().any(|argument| argument == "--smoke");
    let (chunks, rounds) = if smoke { (200, 1) } else { (5000, 20) };
    let words = [" because", " of", " a", "\\n", " caf\u{e9}", "\u{1f600}", " \\\"x\\\"", " process"];
    let mut stream = Vec::new();
    let mut ends = vec![0];
    for number in 0..chunks {
        stream.extend(event(&format!("{{\"content\":\"{}\"}}", words[number % words.len()]), "null"));
        ends.push(stream.len());
    }
    let single: Vec<&[u8]> = ends.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
    let large: Vec<&[u8]> = stream.chunks(64 * 1024).collect();
    println!("{:<20} {:>16} {:>16}", "ns per chunk", "1 chunk a read", "64 KiB a read");
    for name in ["openai.chat", "ollama.chat", "anthropic.messages"] {
        let Some(route) = Route::from_name(name) else { continue };
        let (one, many) = (measure(route, &single, chunks, rounds), measure(route, &large, chunks, rounds));
        println!("{name:<20} {one:>16.0} {many:>16.0}");
    }
}
