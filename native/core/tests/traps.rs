//! What engines and clients are known to do that a translation trips over, by the numbers of the project's list of traps.
//! Traps about requests are in `asked.rs`, `requests.rs` and `faults.rs`, those about accounts and lifecycles in the tests of real
//! engines.
use blazar_core::chat::FaultKind;
use blazar_core::dialect::{Route, Stamp};
use blazar_core::engine::Family;
use blazar_core::exchange::{Exchange, Phase};
use serde_json::{Value, json};

const CHAT: &str = r#"{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"x"}]"#;
const TOOLS: &str = r#","tools":[{"type":"function","function":{"name":"f"}}]"#;

fn start(name: &str, more: &str) -> Exchange {
    let route = Route::from_name(name).unwrap();
    let request = route.parse(format!("{CHAT}{more}}}").as_bytes()).unwrap();
    let stamp =
        Stamp { id: "0123456789abcdef0123456789abcdef".into(), created_ns: 7_000_000_000, started_ns: 0, load_ns: 0 };
    let encoder = route.encoder(&request, stamp);
    Exchange::new(&request, Family::Llama, "m", "h", "", encoder).unwrap().1
}

/// The client's bytes for an engine's event stream, given byte by byte.
fn told(name: &str, more: &str, stream: &[u8]) -> (String, Exchange) {
    let mut exchange = start(name, more);
    let mut out = Vec::new();
    exchange.feed(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", 1, &mut out);
    for byte in stream.chunks(1) {
        exchange.feed(byte, 1, &mut out);
    }
    exchange.eof(1, &mut out);
    (String::from_utf8(out).unwrap(), exchange)
}

fn events(payloads: &[&str]) -> Vec<u8> {
    payloads.iter().flat_map(|payload| format!("data: {payload}\n\n").into_bytes()).collect()
}

fn delta(inner: &str) -> String {
    format!(r#"{{"created":1,"choices":[{{"index":0,"delta":{inner},"finish_reason":null}}]}}"#)
}

const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

/// A whole answer in OpenAI's dialect to these payloads.
fn body(more: &str, payloads: &[&str]) -> Value {
    let (text, exchange) = told("openai.chat", more, &events(payloads));
    assert_eq!(exchange.fault(), None);
    serde_json::from_str(&text).unwrap()
}

fn message(more: &str, payloads: &[&str]) -> Value {
    body(more, payloads)["choices"][0]["message"].clone()
}

#[test]
fn trap_01_a_first_chunk_without_content_is_no_text() {
    let first = delta(r#"{"role":"assistant","content":null}"#);
    assert_eq!(message("", &[&first, &delta(r#"{"content":"a"}"#), STOP, "[DONE]"])["content"], "a");
}

#[test]
fn trap_02_and_05_the_role_and_the_time_are_said_once() {
    let one = delta(r#"{"role":"assistant","content":"a"}"#);
    let other = one.replace("\"created\":1", "\"created\":2");
    let (text, _) = told("openai.chat", r#","stream":true"#, &events(&[&one, &other, STOP, "[DONE]"]));
    assert_eq!(text.matches("\"role\"").count(), 1);
    assert_eq!(text.matches("\"created\":7,").count(), text.matches("\"created\"").count());
}

#[test]
fn traps_03_and_04_usage_comes_in_chunks_without_choices_and_under_any_name() {
    let usage = r#"{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let answer = body("", &[&delta(r#"{"content":"a"}"#), STOP, usage, "[DONE]"]);
    assert_eq!((&answer["usage"]["prompt_tokens"], &answer["usage"]["completion_tokens"]), (&json!(3), &json!(2)));
}

#[test]
fn trap_06_an_error_counts_more_than_the_end_after_it() {
    let error = r#"{"error":{"code":500,"message":"it broke"}}"#;
    let (_, exchange) =
        told("openai.chat", r#","stream":true"#, &events(&[&delta(r#"{"content":"a"}"#), error, "[DONE]"]));
    assert_eq!((exchange.phase(), exchange.fault().unwrap().kind), (Phase::Failed, FaultKind::BadGateway));
}

#[test]
fn trap_07_and_08_the_last_chunk_may_hold_text_and_an_empty_reason_is_none() {
    let open = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""}]}"#;
    let last = r#"{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"length"}]}"#;
    let answer = body("", &[open, last, "[DONE]"]);
    assert_eq!(answer["choices"][0]["message"]["content"], "ab");
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[test]
fn trap_09_empty_deltas_say_nothing() {
    let (text, _) = told("ollama.chat", r#","stream":true"#, &events(&[&delta("{}"), &delta("{}"), STOP, "[DONE]"]));
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn trap_10_old_and_new_forms_of_an_error() {
    for stream in
        ["error: {\"code\":500,\"message\":\"it broke\"}\n\n", "event: error\ndata: {\"message\":\"it broke\"}\n\n"]
    {
        let (_, exchange) = told("openai.chat", r#","stream":true"#, stream.as_bytes());
        assert_eq!(exchange.phase(), Phase::Failed, "{stream}");
    }
}

#[test]
fn trap_11_12_and_14_comments_cut_characters_and_every_shape_of_line() {
    let stream =
        format!(": waiting\n\ndata:{}\r\n\r\ndata: {}\n\n", delta("{\"content\":\"é😀\\ud83d\\ude00\"}"), STOP);
    let (text, exchange) = told("openai.chat", "", stream.as_bytes());
    assert_eq!(exchange.fault(), None);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "é😀😀");
}

#[test]
fn trap_15_the_end_of_the_stream_after_a_finish_is_an_end() {
    assert_eq!(message("", &[&delta(r#"{"content":"a"}"#), STOP])["content"], "a");
    let (_, exchange) = told("openai.chat", "", &events(&[&delta(r#"{"content":"a"}"#)]));
    assert_eq!(exchange.fault().unwrap().kind, FaultKind::Cut, "and before one it is a cut");
}

#[test]
fn traps_16_to_21_calls_come_in_every_shape() {
    let call = |inner: &str| delta(&format!("{{\"tool_calls\":[{inner}]}}"));
    let finish = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    let arguments = |payloads: &[&str]| {
        let calls = message(TOOLS, payloads)["tool_calls"].clone();
        let all =
            calls.as_array().unwrap().iter().map(|call| call["function"]["arguments"].as_str().unwrap().to_owned());
        all.collect::<Vec<_>>()
    };
    // Cut inside an escape; no id and no index after the first fragment; a null id.
    let cut = [
        call(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\\"}}"#),
        call(r#"{"function":{"arguments":"n\"}"}}"#),
        call(r#"{"id":null,"function":{"name":null,"arguments":""}}"#),
    ];
    let wanted = "{\"x\":\"\\n\"}".to_owned();
    assert_eq!(arguments(&[&cut[0], &cut[1], &cut[2], finish, "[DONE]"]), [wanted]);
    // A whole call at once, arguments as an object, and none at all.
    let whole = call(r#"{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}"#);
    assert_eq!(arguments(&[&whole, finish, "[DONE]"]), ["{\"x\":1}"]);
    let none = call(r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#);
    assert_eq!(arguments(&[&none, finish, "[DONE]"]), ["{}"]);
}

#[test]
fn trap_24_and_28_ollama_stops_with_calls_and_unknown_tools_pass() {
    let call = delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"g","arguments":"{}"}}]}"#);
    let finish = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    let (text, _) = told("ollama.chat", &format!("{TOOLS},\"stream\":false"), &events(&[&call, finish, "[DONE]"]));
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["done_reason"], "stop");
    assert_eq!(answer["message"]["tool_calls"][0]["function"]["name"], "g");
}

#[test]
fn traps_29_to_32_reasoning_under_either_name_and_none_where_it_is_empty() {
    for key in ["reasoning", "reasoning_content"] {
        let first = delta(&format!("{{\"{key}\":\"hm\"}}"));
        let said = message("", &[&first, &delta(r#"{"role":"assistant","content":"a"}"#), STOP, "[DONE]"]);
        assert_eq!(
            (&said["reasoning_content"], &said["reasoning"], &said["content"]),
            (&json!("hm"), &json!("hm"), &json!("a"))
        );
    }
    let thinks = r#","thinking":{"type":"enabled","budget_tokens":1024}"#;
    let payloads = [delta(r#"{"reasoning_content":""}"#), delta(r#"{"content":"a"}"#)];
    let (text, _) = told("anthropic.messages", thinks, &events(&[&payloads[0], &payloads[1], STOP, "[DONE]"]));
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["content"].as_array().unwrap().len(), 1, "{text}");
    let (text, _) =
        told("anthropic.messages", thinks, &events(&[&delta(r#"{"reasoning":"hm"}"#), &payloads[1], STOP, "[DONE]"]));
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_ne!(answer["content"][0]["signature"], "");
}

#[test]
fn traps_36_to_38_every_dialect_counts_in_its_own_way() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":20,
        "prompt_tokens_details":{"cached_tokens":32}},
        "timings":{"cache_n":32,"prompt_n":18,"prompt_ms":9.5,"predicted_n":20,"predicted_ms":400.25}}"#
        .replace('\n', " ");
    let payloads = [delta(r#"{"content":"a"}"#), STOP.into(), usage, "[DONE]".into()];
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    let openai = body("", &payloads)["usage"].clone();
    assert_eq!((&openai["prompt_tokens"], &openai["prompt_tokens_details"]["cached_tokens"]), (&json!(50), &json!(32)));
    let (text, _) = told("anthropic.messages", "", &events(&payloads));
    let anthropic: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(anthropic["usage"]["input_tokens"], 18);
    assert_eq!(anthropic["usage"]["cache_read_input_tokens"], 32);
    let (text, _) = told("ollama.chat", r#","stream":false"#, &events(&payloads));
    let ollama: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&ollama["prompt_eval_count"], &ollama["eval_count"]), (&json!(50), &json!(20)));
    assert_eq!((&ollama["prompt_eval_duration"], &ollama["eval_duration"]), (&json!(9_500_000), &json!(400_250_000)));
}

#[test]
fn trap_39_a_message_starts_with_counts() {
    let (text, _) =
        told("anthropic.messages", r#","stream":true"#, &events(&[&delta(r#"{"content":"a"}"#), STOP, "[DONE]"]));
    let start = text.lines().find(|line| line.contains("message_start") && line.starts_with("data")).unwrap();
    let event: Value = serde_json::from_str(start.strip_prefix("data: ").unwrap()).unwrap();
    assert!(event["message"]["usage"]["input_tokens"].is_u64());
}

#[test]
fn reasoning_that_comes_as_text_is_no_text_in_any_dialect() {
    let payloads =
        [delta(r#"{"content":"<thi"}"#), delta(r#"{"content":"nk>\nhm</th"}"#), delta(r#"{"content":"ink>\n\nYes"}"#)];
    let payloads = [&payloads[0], &payloads[1], &payloads[2], STOP, "[DONE]"];
    let said = message("", &payloads);
    assert_eq!((&said["reasoning_content"], &said["content"]), (&json!("hm"), &json!("Yes")));
    let (text, _) = told("ollama.chat", r#","stream":false"#, &events(&payloads));
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&answer["message"]["thinking"], &answer["message"]["content"]), (&json!("hm"), &json!("Yes")));
    let thinks = r#","thinking":{"type":"enabled","budget_tokens":1024}"#;
    let (text, _) = told("anthropic.messages", thinks, &events(&payloads));
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&answer["content"][0]["thinking"], &answer["content"][1]["text"]), (&json!("hm"), &json!("Yes")));
}
