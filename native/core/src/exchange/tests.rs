//! Recorded answers of real engines, replayed at every cut.
use super::*;
use crate::dialect::{Route, Stamp};
use std::{fs, path::PathBuf};

fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/engine/llama").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Like llama-server: one HTTP chunk for each event.
fn streamed(events: &[u8]) -> Vec<u8> {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let text = String::from_utf8_lossy(events).into_owned();
    for event in text.split_inclusive("\n\n") {
        bytes.extend(format!("{:x}\r\n{event}\r\n", event.len()).into_bytes());
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

fn plain(status: u16, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} x\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn exchange(route: &str, body: &str) -> Exchange {
    let route = Route::from_name(route).unwrap();
    let request = route.parse(body.as_bytes()).unwrap();
    let stamp = Stamp {
        id: "0123456789abcdef0123456789abcdef".into(),
        created_ns: 1_700_000_000_000_000_000,
        started_ns: 0,
        load_ns: 0,
    };
    let encoder = route.encoder(&request, stamp);
    Exchange::new(&request, Family::Llama, "m", "h:1", "s", encoder).unwrap().1
}

#[derive(Debug, PartialEq)]
struct Got {
    out: String,
    phase: Phase,
    fault: Option<Fault>,
    usage: Option<Usage>,
    finish: Option<Finish>,
}

fn replay(route: &str, body: &str, pieces: &[&[u8]]) -> Got {
    let mut exchange = exchange(route, body);
    let mut out = Vec::new();
    for piece in pieces {
        exchange.feed(piece, 5, &mut out);
    }
    exchange.eof(5, &mut out);
    Got {
        out: String::from_utf8(out).unwrap(),
        phase: exchange.phase(),
        fault: exchange.fault().cloned(),
        usage: exchange.usage(),
        finish: exchange.finish(),
    }
}

/// At every cut and byte by byte; all must agree.
fn every_way(route: &str, body: &str, bytes: &[u8]) -> Got {
    let whole = replay(route, body, &[bytes]);
    for cut in 1..bytes.len() {
        let got = replay(route, body, &[&bytes[..cut], &bytes[cut..]]);
        assert_eq!(got, whole, "{route}, cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(replay(route, body, &single), whole, "{route}, byte by byte");
    whole
}

const CHAT: &str = r#"{"model":"x","messages":[{"role":"user","content":"hi"}],"max_tokens":99"#;

fn chat(more: &str) -> String {
    format!("{CHAT}{more}}}")
}

/// The text that a recorded chat stream holds, read the slow way; choice 0.
fn said(events: &[u8]) -> String {
    String::from_utf8_lossy(events)
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter_map(|data| serde_json::from_str::<serde_json::Value>(data).ok())
        .filter(|chunk| chunk["choices"][0]["index"] == 0)
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn recorded_chats_come_out_the_same_at_every_cut_in_every_dialect() {
    for name in ["chat.sse", "chat_utf8.sse", "chat_progress.sse", "chat_stop.sse"] {
        let events = golden(name);
        let bytes = streamed(&events);
        let want = said(&events);
        for route in ["openai.chat", "ollama.chat", "anthropic.messages"] {
            let got = replay(route, &chat(r#","stream":false"#), &[&bytes]);
            assert_eq!((got.phase, &got.fault), (Phase::Done, &None), "{route} {name}");
            let answer: serde_json::Value = serde_json::from_str(&got.out).unwrap();
            let text = match route {
                "openai.chat" => &answer["choices"][0]["message"]["content"],
                "ollama.chat" => &answer["message"]["content"],
                _ => &answer["content"][0]["text"],
            };
            assert_eq!(text.as_str().unwrap(), want, "{route} {name}");
            let got = every_way(route, &chat(r#","stream":true"#), &bytes);
            assert_eq!((got.phase, &got.fault), (Phase::Done, &None), "{route} {name}");
            assert!(got.usage.is_some_and(|usage| usage.prompt > 0 && usage.completion > 0));
        }
    }
}

#[test]
fn the_real_framing_is_read_too() {
    let got = every_way("openai.chat", &chat(""), &golden("chat.http"));
    assert_eq!(got.phase, Phase::Done);
    let answer: serde_json::Value = serde_json::from_str(&got.out).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], said(&golden("chat.sse")));
}

#[test]
fn several_answers_have_one_count_of_tokens() {
    let got = every_way("openai.chat", &chat(r#","n":2"#), &streamed(&golden("chat_two.sse")));
    let usage = got.usage.unwrap();
    assert_eq!(usage.completion, 12, "both answers' tokens");
    let answer: serde_json::Value = serde_json::from_str(&got.out).unwrap();
    assert_eq!(answer["choices"].as_array().unwrap().len(), 2);
    assert_eq!(answer["usage"]["completion_tokens"], 12);
    let body = r#"{"model":"x","prompt":"a","n":2,"logprobs":1,"max_tokens":4}"#;
    let got = every_way("openai.text", body, &streamed(&golden("text_two.sse")));
    assert_eq!((got.phase, got.usage.unwrap().completion), (Phase::Done, 8));
}

#[test]
fn log_probabilities_and_the_text_route_are_read() {
    let more = r#","logprobs":true,"top_logprobs":2"#;
    let got = every_way("openai.chat", &chat(more), &streamed(&golden("chat_logprobs.sse")));
    let answer: serde_json::Value = serde_json::from_str(&got.out).unwrap();
    let items = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!(items[0]["top_logprobs"].as_array().unwrap().len(), 2);

    let body = r#"{"model":"x","prompt":"The sky is","max_tokens":8}"#;
    let got = every_way("openai.text", body, &streamed(&golden("text.sse")));
    assert_eq!((got.phase, got.finish), (Phase::Done, Some(Finish::Length)));
    assert_eq!(got.usage.unwrap().completion, 8);
}

#[test]
fn refusals_become_faults_with_the_engines_words() {
    for (name, status, kind, words) in [
        ("too_long.400.json", 400, FaultKind::PromptTooLong, "2048"),
        ("too_many.400.json", 400, FaultKind::BadRequest, "Field 'n'"),
        ("image.500.json", 500, FaultKind::Unsupported, "image input is not supported"),
        ("infill.501.json", 501, FaultKind::Unsupported, "Infill is not supported"),
        ("grammar.400.json", 400, FaultKind::BadRequest, "grammar"),
        ("malformed.400.json", 400, FaultKind::BadRequest, "could not read the request"),
    ] {
        let got =
            every_way("openai.chat", &chat(r#","stream":true"#), &plain(status, "application/json", &golden(name)));
        let fault = got.fault.unwrap();
        assert_eq!((got.phase, fault.kind, got.out.as_str()), (Phase::Failed, kind, ""), "{name}");
        assert!(fault.message.contains(words) && !fault.message.contains("json.exception"), "{}", fault.message);
        if kind == FaultKind::PromptTooLong {
            assert_eq!(fault.context, Some(2048));
            assert!(fault.tokens.unwrap() > 2048);
        }
    }
    for (body, words) in
        [(b"".as_slice(), "status 500"), (b"<html>x</html>", "status 500"), (b"out of memory", "out of memory")]
    {
        let got = replay("openai.chat", &chat(""), &[&plain(500, "text/plain", body)]);
        let fault = got.fault.unwrap();
        assert_eq!(fault.kind, FaultKind::BadGateway);
        assert!(fault.message.contains(words), "{}", fault.message);
    }
}

fn data(payloads: &[&str]) -> Vec<u8> {
    let mut events = Vec::new();
    for payload in payloads {
        sse::write_data(&mut events, payload.as_bytes());
    }
    streamed(&events)
}

const HELLO: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"hello"},"finish_reason":null}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

#[test]
fn a_fault_after_the_first_bytes_is_the_dialects_own_event_and_the_last() {
    let late = r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#;
    for route in ["openai.chat", "ollama.chat", "anthropic.messages"] {
        for bytes in [data(&[HELLO, late]), data(&[HELLO, "{nonsense"]), data(&[HELLO])] {
            let got = every_way(route, &chat(r#","stream":true"#), &bytes);
            assert_eq!(got.phase, Phase::Failed);
            let message = got.fault.unwrap().message;
            assert!(got.out.contains("hello") && got.out.contains(&message), "{route}: {}", got.out);
            let got = every_way(route, &chat(r#","stream":false"#), &bytes);
            assert_eq!((got.phase, got.out.as_str()), (Phase::Failed, ""), "{route}: a status says it instead");
        }
    }
    let got = every_way(
        "openai.chat",
        &chat(""),
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nerror: {\"message\":\"old\"}\n\n",
    );
    assert_eq!(got.fault.unwrap().message, "old");
}

#[test]
fn an_answer_without_its_last_mark_is_complete_and_one_without_end_is_not() {
    let got = every_way("openai.chat", &chat(""), &data(&[HELLO, STOP]));
    assert_eq!((got.phase, got.finish), (Phase::Done, Some(Finish::Stop)));
    // The engine's connection breaks before the chunk that ends the body.
    let whole = data(&[HELLO, STOP]);
    let got = every_way("openai.chat", &chat(""), &whole[..whole.len() - 5]);
    assert_eq!(got.phase, Phase::Done);
    let got = every_way("openai.chat", &chat(""), &data(&[HELLO]));
    assert_eq!(got.fault.unwrap().kind, FaultKind::Cut);
    let got = every_way("openai.chat", &chat(""), &data(&[HELLO, "[DONE]"]));
    assert_eq!((got.phase, got.finish), (Phase::Done, Some(Finish::Stop)));
}

#[test]
fn an_engine_that_does_not_stream_is_read_all_the_same_and_a_page_is_no_answer() {
    let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"q","type":"function","function":{"name":"f","arguments":{"a": 1.50}}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let got = every_way(
        "openai.chat",
        &chat(r#","stream":true"#),
        &plain(200, "application/json; charset=utf-8", body.as_bytes()),
    );
    assert_eq!((got.phase, got.finish), (Phase::Done, Some(Finish::ToolCalls)));
    assert!(got.out.contains(r#"{\"a\": 1.50}"#), "numbers stay as they were: {}", got.out);
    let got = every_way("openai.chat", &chat(""), &plain(200, "text/html", b"<html>"));
    let fault = got.fault.unwrap();
    assert!(fault.kind == FaultKind::BadGateway && fault.message.contains("text/html"));
}

#[test]
fn recorded_calls_come_out_whole_in_every_dialect() {
    let bytes = streamed(&golden("tool.sse"));
    let tools = r#","tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object"}}}]"#;
    let got = every_way("openai.chat", &chat(tools), &bytes);
    let answer: serde_json::Value = serde_json::from_str(&got.out).unwrap();
    let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
    assert!(calls.len() > 1, "{calls:?}");
    for call in calls {
        assert_eq!(call["function"]["name"], "get_weather");
        assert!(!call["id"].as_str().unwrap().is_empty());
    }
    let first: serde_json::Value = serde_json::from_str(calls[0]["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(first, serde_json::json!({"city": "Oslo"}));
    let got = replay("ollama.chat", &chat(tools), &[&bytes]);
    assert!(got.fault.is_none() && got.out.contains("get_weather"), "{:?}", got.fault);
    let tools = r#","tools":[{"name":"get_weather","input_schema":{"type":"object"}}]"#;
    let got = every_way("anthropic.messages", &chat(&format!(r#"{tools},"stream":true"#)), &bytes);
    assert!(got.fault.is_none() && got.out.contains("input_json_delta"), "{}", got.out);
}

#[test]
fn a_call_that_the_model_wrote_as_text_is_a_call() {
    let pieces = [r#"{\"name\": \"get_we"#, r#"ather\", \"arguments\""#, r#": {\"city\": \"Oslo\"}}"#];
    let chunks: Vec<String> =
        pieces.iter().map(|text| format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#)).collect();
    let mut payloads: Vec<&str> = chunks.iter().map(String::as_str).collect();
    payloads.extend([STOP, "[DONE]"]);
    let bytes = data(&payloads);
    let tools = r#","tools":[{"type":"function","function":{"name":"get_weather"}}]"#;
    let got = every_way("openai.chat", &chat(tools), &bytes);
    let answer: serde_json::Value = serde_json::from_str(&got.out).unwrap();
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"city": "Oslo"}"#);
    assert_eq!((&message["content"], got.finish), (&serde_json::Value::Null, Some(Finish::ToolCalls)));
    let got = every_way("openai.chat", &chat(""), &bytes);
    assert!(got.out.contains("get_weather") && got.finish == Some(Finish::Stop), "without tools it is text");
}

#[test]
fn an_engine_that_goes_on_after_the_call_that_had_to_come_is_left() {
    let chunk = |text: &str, predicted: u32| {
        let text = serde_json::Value::from(text);
        let timings = format!(r#"{{"prompt_n":30,"cache_n":4,"predicted_n":{predicted}}}"#);
        format!(r#"{{"choices":[{{"delta":{{"content":{text}}}}}],"timings":{timings}}}"#)
    };
    let call = r#"{"name": "f", "arguments": {"city": "Oslo"}}"#;
    let bytes = data(&[&chunk(call, 11), &chunk(".", 12), &chunk("json", 13), &chunk("more", 14)]);
    let unended = &bytes[..bytes.len() - b"0\r\n\r\n".len()];
    let tools = r#","tool_choice":"required","tools":[{"type":"function","function":{"name":"f"}}]"#;
    let mut exchange = exchange("openai.chat", &chat(tools));
    let mut out = Vec::new();
    exchange.feed(unended, 1, &mut out);
    assert!(exchange.phase() == Phase::Done && !exchange.is_reusable());
    let answer: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "f");
    let usage = exchange.usage().unwrap();
    assert_eq!((usage.prompt, usage.cached, usage.completion), (34, 4, 12));
}

#[test]
fn calls_in_fragments_without_index_or_id_are_put_together() {
    let bytes = data(&[
        r#"{"id":"chatcmpl-Ab12","choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{\"ci"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":null,"function":{"name":null,"arguments":"ty\":\"Oslo\"}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"two","function":{"name":"g"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":""}]}"#,
        STOP,
        "[DONE]",
    ]);
    let got = every_way("openai.chat", &chat(r#","tools":[{"type":"function","function":{"name":"f"}}]"#), &bytes);
    let answer: serde_json::Value = serde_json::from_str(&got.out).unwrap();
    let calls = &answer["choices"][0]["message"]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], r#"{"city":"Oslo"}"#);
    assert!(calls[0]["id"].as_str().unwrap().starts_with("call_"), "{calls}");
    assert_eq!((&calls[1]["id"], &calls[1]["function"]["arguments"]), (&"two".into(), &"{}".into()));
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn only_what_belongs_to_the_answer_counts_and_the_connection_is_kept_where_it_can_be() {
    let mut refused = exchange("openai.chat", &chat(""));
    refused.feed(&plain(400, "application/json", b"{}"), 0, &mut Vec::new());
    assert!(refused.phase() == Phase::Failed && refused.is_reusable());
    let mut streamed = exchange("openai.chat", &chat(""));
    streamed.feed(&data(&[HELLO, STOP, "[DONE]"]), 0, &mut Vec::new());
    assert!(streamed.phase() == Phase::Done && streamed.is_reusable(), "the framing ended with the stream");
    let mut endless = exchange("openai.chat", &chat(""));
    let unended = data(&[HELLO, STOP, "[DONE]"]);
    endless.feed(&unended[..unended.len() - b"0\r\n\r\n".len()], 0, &mut Vec::new());
    assert!(endless.phase() == Phase::Done && !endless.is_reusable(), "more of the framing is to come");
    let mut smuggled = exchange("openai.chat", &chat(""));
    smuggled.feed(&[plain(400, "application/json", b"{}"), b"HTTP/1.1".to_vec()].concat(), 0, &mut Vec::new());
    assert!(!smuggled.is_reusable());
}

#[test]
fn the_caller_can_end_it_and_keep_it_open() {
    let mut out = Vec::new();
    let mut early = exchange("anthropic.messages", &chat(r#","stream":true"#));
    early.fail(Fault::new(FaultKind::Timeout, "slow"), 1, &mut out);
    assert_eq!((early.phase(), out.len()), (Phase::Failed, 0));
    let mut late = exchange("openai.chat", &chat(r#","stream":true"#));
    late.keep_alive(1, &mut out);
    assert_eq!(late.phase(), Phase::Body);
    let mut fault = Fault::new(FaultKind::Crashed, "it died");
    fault.code = "ENGINE_CRASHED_HARD".to_owned().into();
    late.fail(fault, 1, &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("it died") && text.contains("ENGINE_CRASHED_HARD"), "{text}");
    let length = text.len();
    let mut more = Vec::new();
    late.feed(&data(&[HELLO]), 2, &mut more);
    assert!(more.is_empty() && length > 0, "nothing follows the end");
}

#[test]
fn the_first_text_is_timed() {
    let mut exchange = exchange("openai.chat", &chat(r#","stream":true"#));
    let bytes = data(&[HELLO, STOP, "[DONE]"]);
    let mut out = Vec::new();
    exchange.feed(&bytes[..90], 10, &mut out);
    assert_eq!(exchange.first_ns(), None);
    exchange.feed(&bytes[90..], 20, &mut out);
    assert_eq!(exchange.first_ns(), Some(20));
}
