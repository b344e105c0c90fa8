//! Whatever an engine says, within the invariants of its events: each dialect's frames are whole, hold JSON, and carry the
//! text that came, and the single body says the same as the stream.
use blazar_core::chat::{Event, Fault, FaultKind, Finish, Prompt, Request, Role, Think, TokenLogprob, Turn, Usage};
use blazar_core::dialect::{Encode, Route, Stamp};
use proptest::prelude::*;
use serde_json::Value;

const ROUTES: [Route; 6] = [
    Route::OpenaiChat,
    Route::OpenaiText,
    Route::OpenaiResponses,
    Route::OllamaChat,
    Route::OllamaGenerate,
    Route::AnthropicMessages,
];

/// What a choice says, before it is cut into events.
#[derive(Debug, Clone)]
enum Said {
    Reasoning(String),
    Text(String),
    Call(String, Vec<String>),
    Logprobs(String, f64),
}

fn said() -> impl Strategy<Value = Said> {
    let text = prop_oneof![".{1,12}", "[ \n\t]{1,3}", "[\"\\\\\u{0}-\u{1f}]{1,6}", Just("🦊".to_owned())];
    let value = any::<String>().prop_map(|text| {
        let json = serde_json::json!({ "a b": text, "n": 1 }).to_string();
        json.chars().map(String::from).collect::<Vec<_>>()
    });
    prop_oneof![
        2 => text.clone().prop_map(Said::Reasoning),
        6 => text.prop_map(Said::Text),
        1 => ("[a-z_]{1,8}", prop_oneof![Just(Vec::new()), value]).prop_map(|(name, pieces)| Said::Call(name, pieces)),
        1 => (".{0,4}", any::<f64>()).prop_map(|(token, logprob)| Said::Logprobs(token, logprob)),
    ]
}

fn events(answer: &[Said], finish: Finish, usage: bool) -> Vec<Event<'_>> {
    let mut events = vec![Event::Start { choice: 0 }];
    let mut call = 0;
    for step in answer {
        match step {
            Said::Reasoning(text) => events.push(Event::Reasoning { choice: 0, text: text.into() }),
            Said::Text(text) => events.push(Event::Text { choice: 0, text: text.into() }),
            Said::Call(name, pieces) => {
                events.push(Event::CallStart { choice: 0, call, id: "".into(), name: name.into() });
                events.extend(pieces.iter().map(|text| Event::CallArguments { choice: 0, call, text: text.into() }));
                events.push(Event::CallEnd { choice: 0, call });
                call += 1;
            }
            Said::Logprobs(token, logprob) => {
                let token = TokenLogprob { token: token.clone(), logprob: *logprob, bytes: None, top: Vec::new() };
                events.push(Event::Logprobs { choice: 0, tokens: vec![token] });
            }
        }
    }
    events.push(Event::Finish { choice: 0, reason: finish, stop: None });
    if usage {
        events.push(Event::Usage {
            usage: Usage { prompt: 9, cached: 3, completion: 5, reasoning: None },
            timings: None,
        });
    }
    events.push(Event::End);
    events
}

fn encoder(route: Route, stream: bool, logprobs: bool, thinks: bool) -> Box<dyn Encode> {
    let mut request = Request::new("a \"model\"", Prompt::Chat(vec![Turn { role: Role::User, parts: Vec::new() }]));
    request.stream = stream;
    request.include_usage = true;
    request.logprobs = logprobs.then_some(1);
    request.think = if thinks { Think::On { level: None, budget: None } } else { Think::Off };
    let stamp = Stamp { id: "0123456789abcdef01234567".into(), created_ns: 5, started_ns: 7, load_ns: 0 };
    route.encoder(&request, stamp)
}

/// The JSON of every frame that `bytes` holds; panics where a frame is cut or holds something else.
fn frames(route: Route, bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    if matches!(route, Route::OllamaChat | Route::OllamaGenerate) {
        return text.split_terminator('\n').map(|line| serde_json::from_str(line).unwrap()).collect();
    }
    assert!(text.is_empty() || text.ends_with("\n\n"), "a frame is cut: {text:?}");
    let mut found = Vec::new();
    for frame in text.split_terminator("\n\n") {
        let data = if matches!(route, Route::AnthropicMessages | Route::OpenaiResponses) {
            let (name, data) = frame.split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name.strip_prefix("event: ").unwrap(), data["type"]);
            data
        } else {
            match frame.strip_prefix("data: ").unwrap() {
                "[DONE]" => Value::Null,
                data => serde_json::from_str(data).unwrap(),
            }
        };
        found.push(data);
    }
    found
}

fn text_of(route: Route, frames: &[Value]) -> String {
    let pieces = frames.iter().filter_map(|frame| match route {
        Route::OpenaiChat => frame["choices"][0]["delta"]["content"].as_str(),
        Route::OpenaiText => frame["choices"][0]["text"].as_str(),
        Route::OpenaiResponses if frame["type"] == "response.output_text.delta" => frame["delta"].as_str(),
        Route::OpenaiResponses => None,
        Route::OllamaChat => frame["message"]["content"].as_str(),
        Route::OllamaGenerate => frame["response"].as_str(),
        _ => frame["delta"]["text"].as_str(),
    });
    pieces.collect()
}

fn body_text_of(route: Route, body: &Value) -> String {
    match route {
        Route::OpenaiChat => body["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
        Route::OpenaiText => body["choices"][0]["text"].as_str().unwrap().to_owned(),
        Route::OpenaiResponses => {
            let items = body["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
            items.filter_map(|item| item["content"][0]["text"].as_str()).collect()
        }
        Route::AnthropicMessages => {
            body["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect()
        }
        _ => text_of(route, std::slice::from_ref(body)),
    }
}

/// White space alone is no block in Anthropic's dialect: a run of text that holds nothing visible is not shown.
fn visible(answer: &[Said], thinks: bool) -> String {
    let mut all = String::new();
    let mut run = String::new();
    for step in answer {
        match step {
            Said::Text(text) => run.push_str(text),
            Said::Logprobs(..) => {}
            Said::Reasoning(_) if !thinks => {}
            Said::Reasoning(_) | Said::Call(..) => {
                let run = std::mem::take(&mut run);
                all.push_str(if run.trim().is_empty() { "" } else { &run });
            }
        }
    }
    all.push_str(if run.trim().is_empty() { "" } else { &run });
    all
}

/// Blocks are numbered from 0, one is open at a time, and the last thing is the message's end.
fn check_blocks(frames: &[Value]) {
    let mut open = None;
    let mut next = 0;
    for frame in frames {
        match frame["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(open, None);
                assert_eq!(frame["index"], next);
                open = Some(next);
                next += 1;
            }
            "content_block_delta" => assert_eq!(Some(frame["index"].as_u64().unwrap()), open),
            "content_block_stop" => assert_eq!(Some(frame["index"].as_u64().unwrap()), open.take()),
            "message_delta" => {
                assert_eq!(open, None);
                assert!(frame["usage"]["output_tokens"].is_u64());
            }
            _ => {}
        }
    }
    assert_eq!(frames[0]["type"], "message_start");
    assert_eq!(frames[frames.len() - 1]["type"], "message_stop");
}

/// Events are numbered from 0 without a gap, one item is open at a time, and the object at the end holds every item as
/// its own last event said it.
fn check_items(frames: &[Value], body: &Value) {
    let mut done = Vec::new();
    let mut open = None;
    for (number, frame) in (0..).zip(frames) {
        assert_eq!(frame["sequence_number"], number);
        match frame["type"].as_str().unwrap() {
            "response.output_item.added" => {
                assert_eq!(open, None);
                assert_eq!(frame["output_index"], done.len());
                open = Some(frame["item"]["id"].clone());
            }
            "response.output_item.done" => {
                assert_eq!(open.take().as_ref(), Some(&frame["item"]["id"]));
                done.push(frame["item"].clone());
            }
            _ => assert!(frame["item_id"].is_null() || Some(&frame["item_id"]) == open.as_ref()),
        }
    }
    assert_eq!(open, None);
    assert_eq!(frames[0]["type"], "response.created");
    let last = &frames[frames.len() - 1]["response"];
    assert_eq!(last["output"], Value::Array(done));
    assert_eq!(last, body);
}

proptest! {
    #[test]
    fn streams_hold_json_and_all_of_the_text(
        answer in prop::collection::vec(said(), 0..12),
        finish in prop::sample::select(vec![Finish::Stop, Finish::Length, Finish::ToolCalls, Finish::ContentFilter]),
        usage in any::<bool>(),
        logprobs in any::<bool>(),
        thinks in any::<bool>(),
    ) {
        let whole: String = answer.iter().filter_map(|s| if let Said::Text(t) = s { Some(t.as_str()) } else { None }).collect();
        for route in ROUTES {
            let mut stream = encoder(route, true, logprobs, thinks);
            let mut body = encoder(route, false, logprobs, thinks);
            let (mut all, mut once) = (Vec::new(), Vec::new());
            for (now, event) in (8..).zip(events(&answer, finish, usage)) {
                let mut out = Vec::new();
                stream.event(&event, now, &mut out);
                all.extend(frames(route, &out));
                body.event(&event, now, &mut once);
            }
            let wanted = match route {
                Route::AnthropicMessages => visible(&answer, thinks),
                Route::OpenaiResponses => visible(&answer, true),
                _ => whole.clone(),
            };
            prop_assert_eq!(text_of(route, &all), wanted.clone());
            let once: Value = serde_json::from_slice(&once).unwrap();
            prop_assert_eq!(body_text_of(route, &once), wanted);
            if route == Route::AnthropicMessages {
                check_blocks(&all);
            }
            if route == Route::OpenaiResponses {
                check_items(&all, &once);
            }
        }
    }

    #[test]
    fn a_fault_is_the_last_thing_of_a_stream(answer in prop::collection::vec(said(), 0..6), message in any::<String>()) {
        for route in ROUTES {
            let mut stream = encoder(route, true, false, true);
            let mut out = Vec::new();
            let sequence = events(&answer, Finish::Stop, true);
            let (before, after) = sequence.split_at(sequence.len() / 2);
            for event in before {
                stream.event(event, 9, &mut out);
            }
            stream.fault(&Fault::new(FaultKind::Crashed, message.clone()), 9, &mut out);
            let length = out.len();
            for event in after {
                stream.event(event, 9, &mut out);
            }
            stream.fault(&Fault::new(FaultKind::Cut, "again"), 9, &mut out);
            prop_assert_eq!(out.len(), length);
            let all = frames(route, &out);
            let last = all.last().unwrap();
            let (said, code) = match route {
                Route::OllamaChat | Route::OllamaGenerate => (&last["error"], &last["blazar_code"]),
                Route::OpenaiResponses => {
                    (&last["response"]["error"]["message"], &last["response"]["error"]["blazar_code"])
                }
                _ => (&last["error"]["message"], &last["error"]["blazar_code"]),
            };
            prop_assert_eq!(said, &message);
            prop_assert_eq!(code, "ENGINE_CRASHED");
        }
    }
}

#[test]
fn a_megabyte_of_arguments_passes() {
    let long = "x".repeat(1 << 20);
    let answer = [Said::Call("f".into(), vec!["{\"a\":\"".into(), long.clone(), "\"}".into()])];
    for route in [Route::OpenaiChat, Route::OllamaChat, Route::AnthropicMessages] {
        let mut stream = encoder(route, true, false, true);
        let mut out = Vec::new();
        for event in events(&answer, Finish::ToolCalls, true) {
            stream.event(&event, 9, &mut out);
        }
        let all = frames(route, &out);
        let arguments: String = match route {
            Route::OpenaiChat => {
                let pieces = all.iter().filter_map(|frame| {
                    frame["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str()
                });
                pieces.collect()
            }
            Route::OllamaChat => all[0]["message"]["tool_calls"][0]["function"]["arguments"].to_string(),
            _ => all.iter().filter_map(|frame| frame["delta"]["partial_json"].as_str()).collect(),
        };
        assert_eq!(arguments, format!("{{\"a\":\"{long}\"}}"));
    }
}

#[test]
fn idle_streams_are_kept_open() {
    let line = "{\"model\":\"a \\\"model\\\"\",\"created_at\":\"1970-01-01T00:00:00.000000007Z\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n";
    for (route, before, after) in [
        (Route::OpenaiChat, ": ping\n\n", ": ping\n\n"),
        (Route::OpenaiResponses, ": ping\n\n", ": ping\n\n"),
        (Route::OllamaChat, line, line),
        (Route::AnthropicMessages, ": ping\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n"),
    ] {
        let mut stream = encoder(route, true, false, true);
        let mut out = Vec::new();
        stream.keep_alive(9, &mut out);
        assert_eq!(String::from_utf8(std::mem::take(&mut out)).unwrap(), before);
        stream.event(&Event::Start { choice: 0 }, 9, &mut Vec::new());
        stream.keep_alive(9, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), after);
    }
}
