//! Whatever an engine sends, in two pieces cut anywhere: the client's bytes are those of one piece, and it comes to an end.
#![no_main]
use blazar_core::{
    dialect::{Route, Stamp},
    engine::Family,
    exchange::{Exchange, Phase},
};
use libfuzzer_sys::fuzz_target;

const BODIES: [(&str, &[u8]); 4] = [
    ("openai.chat", br#"{"model":"m","stream":true,"n":2,"messages":[{"role":"user","content":"hi"}]}"#),
    ("openai.text", br#"{"model":"m","prompt":"hi","logprobs":1}"#),
    ("ollama.chat", br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#),
    (
        "anthropic.messages",
        br#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
    ),
];
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

fn answer(which: usize, pieces: &[&[u8]]) -> (Vec<u8>, Phase) {
    let (name, body) = BODIES[which % BODIES.len()];
    let route = Route::from_name(name).expect("it is a route");
    let request = route.parse(body).expect("it is right");
    let stamp = Stamp { id: "0123456789abcdef0123456789abcdef".into(), created_ns: 1, started_ns: 0, load_ns: 0 };
    let encoder = route.encoder(&request, stamp);
    let (_, mut exchange) = Exchange::new(&request, Family::Llama, "m", "h", "", encoder).expect("it is right");
    let mut out = Vec::new();
    for piece in pieces {
        exchange.feed(piece, 1, &mut out);
    }
    exchange.eof(1, &mut out);
    assert!(matches!(exchange.phase(), Phase::Done | Phase::Failed));
    (out, exchange.phase())
}

fuzz_target!(|input: &[u8]| {
    let [which, high, low, text @ ..] = input else { return };
    // Half of the inputs begin inside the stream, which a fuzzer would take long to reach.
    let text = if which & 0x80 == 0 { [HEAD, text].concat() } else { text.to_vec() };
    let which = usize::from(which & 0x7f);
    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (text.len() + 1);
    assert_eq!(answer(which, &[&text[..cut], &text[cut..]]), answer(which, &[&text]));
});
