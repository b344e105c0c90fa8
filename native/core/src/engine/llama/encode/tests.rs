use super::*;
use crate::dialect::Route;
use serde_json::{Value, json};

/// What the engine gets for an OpenAI chat request.
fn sent(body: &Value) -> Value {
    let request = Route::OpenaiChat.parse(body.to_string().as_bytes()).unwrap();
    let outbound = generate(&request, "alias").unwrap();
    assert_eq!(outbound.path, "/v1/chat/completions");
    serde_json::from_slice(&outbound.body).unwrap()
}

fn asked(mut body: Value, messages: Value) -> Value {
    body["model"] = "client's name".into();
    body["messages"] = messages;
    sent(&body)
}

fn hi() -> Value {
    json!([{"role": "user", "content": "hi"}])
}

#[test]
fn engines_always_stream_and_get_only_what_was_asked_for() {
    assert_eq!(
        asked(json!({}), hi()),
        json!({
            "model": "alias",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": true,
            "stream_options": {"include_usage": true},
            "cache_prompt": true,
        })
    );
    let more = json!({"temperature": 0, "top_k": 3, "seed": -1, "max_tokens": 7, "stop": ["a"], "n": 2, "logit_bias": {"5": -1.5}});
    let body = asked(more, hi());
    for (name, value) in [
        ("seed", json!(-1)),
        ("max_tokens", json!(7)),
        ("stop", json!(["a"])),
        ("n", json!(2)),
        ("logit_bias", json!({"5": -1.5})),
    ] {
        assert_eq!(body[name], value, "{name}");
    }
    assert_eq!(body["temperature"].as_f64(), Some(0.0));
    assert_eq!(body["top_k"], 3);
}

#[test]
fn a_named_choice_is_the_one_tool_and_required() {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "strict": true}});
    let named = json!({"tools": [tool("a"), tool("b")], "tool_choice": {"type": "function", "function": {"name": "b"}}, "logprobs": true});
    let body = asked(named, hi());
    assert_eq!(
        body["tools"],
        json!([{"type": "function", "function": {"name": "b", "parameters": {"type": "object", "properties": {}}}}])
    );
    assert_eq!((&body["tool_choice"], &body["parallel_tool_calls"]), (&json!("required"), &json!(true)));
    assert_eq!(body.get("logprobs"), None, "the engine refuses them with tools");
    let none =
        asked(json!({"tools": [tool("a")], "tool_choice": "none", "response_format": {"type": "json_object"}}), hi());
    assert_eq!((none.get("tools"), none.get("tool_choice")), (None, None));
    assert_eq!(none["response_format"], json!({"type": "json_object"}));
    let both = asked(json!({"tools": [tool("a")], "response_format": {"type": "json_object"}}), hi());
    assert_eq!(both.get("response_format"), None, "tools and a format exclude each other");
}

#[test]
fn speakers_alternate_and_results_stand_alone() {
    let body = asked(
        json!({}),
        json!([
            {"role": "system", "content": "s1"},
            {"role": "developer", "content": "s2"},
            {"role": "user", "content": "a"},
            {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1.0}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
        ]),
    );
    let list = body["messages"].as_array().unwrap();
    assert_eq!(list[0], json!({"role": "system", "content": "s1\n\ns2"}));
    assert_eq!(list[1]["content"][0], json!({"type": "text", "text": "a\n\nb"}));
    assert_eq!(list[1]["content"][1]["image_url"]["url"], "data:image/png;base64,iVBORw0KGgo=");
    assert_eq!(list[2]["content"], "");
    assert_eq!(list[2]["tool_calls"][0]["function"]["arguments"], "{\"x\": 1.0}");
    assert_eq!(
        (&list[3]["role"], &list[3]["tool_call_id"], &list[3]["content"]),
        (&json!("tool"), &json!("c1"), &json!("r"))
    );
    assert_eq!(list.len(), 4);
}

#[test]
fn thinking_is_switched_by_the_template_and_never_on_for_an_answer_begun() {
    let body = asked(json!({"reasoning_effort": "low"}), hi());
    assert_eq!(body["reasoning_effort"], "low");
    assert_eq!(body["chat_template_kwargs"], json!({"enable_thinking": true, "reasoning_effort": "low"}));
    let begun = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "So"}]);
    let body = asked(json!({"reasoning_effort": "low"}), begun);
    assert_eq!(body["chat_template_kwargs"], json!({"enable_thinking": false}));
    assert_eq!(body.get("reasoning_effort"), None);
    let request = Route::AnthropicMessages
        .parse(br#"{"model":"m","max_tokens":3000,"messages":[{"role":"user","content":"hi"}],"thinking":{"type":"enabled","budget_tokens":1500}}"#)
        .unwrap();
    let body: Value = serde_json::from_slice(&generate(&request, "m").unwrap().body).unwrap();
    assert_eq!(body["thinking_budget_tokens"], 1500);
}

#[test]
fn text_goes_to_its_own_route_and_is_counted_by_it() {
    let text = |body: &[u8]| Route::OpenaiText.parse(body).unwrap();
    let request = text(br#"{"model":"m","prompt":"abc","logprobs":0,"max_tokens":4}"#);
    let outbound = generate(&request, "m").unwrap();
    let body: Value = serde_json::from_slice(&outbound.body).unwrap();
    assert_eq!((outbound.path, &body["prompt"], &body["logprobs"]), ("/v1/completions", &json!("abc"), &json!(1)));
    assert_eq!(count(&request, "m").unwrap().path, "/tokenize");
    let fill = text(br#"{"model":"m","prompt":"a","suffix":"b"}"#);
    let outbound = generate(&fill, "m").unwrap();
    let body: Value = serde_json::from_slice(&outbound.body).unwrap();
    assert_eq!((outbound.path, &body["input_suffix"]), ("/infill", &json!("b")));
}

#[test]
fn a_long_prompt_has_its_progress_told() {
    let long = json!([{"role": "user", "content": "word ".repeat(5000)}]);
    assert_eq!(asked(json!({}), long)["return_progress"], true);
}

#[test]
fn a_native_stream_ends_with_the_word_that_stopped_it() {
    use crate::{
        chat::{Event, Finish},
        engine::Decode,
        engine::llama::decode::Decoder,
    };
    let request = Request::new("m", Prompt::Text { prompt: "a".into(), suffix: Some("b".into()), echo: false });
    let mut decoder = Decoder::new(&request);
    let mut text = String::new();
    let mut stop = None;
    let mut sink = |event: &Event<'_>| match event {
        Event::Text { text: piece, .. } => text.push_str(piece),
        Event::Finish { reason: Finish::Stop, stop: word, .. } => stop = word.as_ref().map(ToString::to_string),
        _ => {}
    };
    decoder.data(br#"{"index":0,"content":" blue","stop":false}"#, &mut sink).unwrap();
    decoder
        .data(br#"{"content":"","stop":true,"stop_type":"word","stopping_word":".","timings":{"prompt_n":1,"predicted_n":1}}"#, &mut sink)
        .unwrap();
    decoder.end(&mut sink).unwrap();
    assert_eq!((text.as_str(), stop.as_deref()), (" blue", Some(".")));
}

#[test]
fn the_word_that_stopped_a_chat_is_known_from_beside_its_last_chunks() {
    use crate::{
        chat::{Event, Finish},
        engine::Decode,
        engine::llama::decode::Decoder,
    };
    let asked = asked(json!({"stop": ["4"]}), json!([{"role": "user", "content": "Count"}]));
    assert_eq!((&asked["verbose"], &asked["response_fields"]), (&json!(true), &json!(["stopping_word"])));
    for (ends_with, expected) in [("4", Some("4")), ("", None)] {
        let mut decoder = Decoder::new(&Request::new("m", Prompt::Chat(Vec::new())));
        let mut stop = None;
        let mut sink = |event: &Event<'_>| {
            if let Event::Finish { reason: Finish::Stop, stop: word, .. } = event {
                stop = word.as_ref().map(ToString::to_string);
            }
        };
        let last = json!({"choices": [{"delta": {"content": "3 "}}], "__verbose": {"stopping_word": ends_with}});
        decoder.data(last.to_string().as_bytes(), &mut sink).unwrap();
        decoder.data(br#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, &mut sink).unwrap();
        decoder.end(&mut sink).unwrap();
        assert_eq!(stop.as_deref(), expected);
    }
}
