//! What an engine is asked, where clients and engines are known to disagree, by the numbers of the project's list of traps.
use blazar_core::dialect::Route;
use blazar_core::engine::Family;
use serde_json::{Value, json};

fn asked(route: Route, body: &Value) -> Value {
    let request = route.parse(body.to_string().as_bytes()).unwrap();
    serde_json::from_slice(&Family::Llama.encode(&request, "m").unwrap().body).unwrap()
}

fn chat(more: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    let Value::Object(more) = more else { panic!("an object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}])
}

#[test]
fn trap_22_a_named_choice_is_the_one_tool_required() {
    let choice = json!({"type": "function", "function": {"name": "g"}});
    let body = asked(Route::OpenaiChat, &chat(json!({"tools": tools(), "tool_choice": choice})));
    assert_eq!((&body["tool_choice"], &body["tools"][0]["function"]["name"]), (&json!("required"), &json!("g")));
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
}

#[test]
fn trap_23_log_probabilities_and_tools_exclude_each_other_in_the_engine() {
    assert_eq!(asked(Route::OpenaiChat, &chat(json!({"logprobs": true})))["logprobs"], true);
    assert!(asked(Route::OpenaiChat, &chat(json!({"logprobs": true, "tools": tools()})))["logprobs"].is_null());
}

#[test]
fn trap_26_results_come_before_what_is_said_with_them() {
    let body = json!({"model": "m", "max_tokens": 900, "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "text", "text": "So?"}, {"type": "tool_result", "tool_use_id": "t1", "content": "42"}]},
    ]});
    let messages = asked(Route::AnthropicMessages, &body)["messages"].clone();
    let seen: Vec<_> = messages.as_array().unwrap().iter().map(|one| (&one["role"], &one["content"])).collect();
    assert_eq!(seen[2], (&json!("tool"), &json!("42")));
    assert_eq!(seen[3], (&json!("user"), &json!("So?")));
}

#[test]
fn trap_27_arguments_keep_their_order_and_their_numbers() {
    let arguments = r#"{"z":1.0,"a":10000000000000000001,"m":{"y":1e2,"b":null}}"#;
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"assistant","tool_calls":[{{"function":{{"name":"f","arguments":{arguments}}}}}]}}]}}"#
    );
    let request = Route::OllamaChat.parse(body.as_bytes()).unwrap();
    let sent: Value = serde_json::from_slice(&Family::Llama.encode(&request, "m").unwrap().body).unwrap();
    assert_eq!(sent["messages"][0]["tool_calls"][0]["function"]["arguments"], arguments);
}

#[test]
fn traps_33_and_35_no_thinking_where_an_answer_is_begun_or_must_be_tiny() {
    let begun = json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I"}]});
    let off = json!({"enable_thinking": false});
    assert_eq!(asked(Route::OpenaiChat, &chat(begun))["chat_template_kwargs"], off);
    assert_eq!(asked(Route::OpenaiChat, &chat(json!({"max_tokens": 32})))["chat_template_kwargs"], off);
    assert_eq!(asked(Route::AnthropicMessages, &chat(json!({"max_tokens": 32})))["chat_template_kwargs"], off);
    assert!(asked(Route::OpenaiChat, &chat(json!({"max_tokens": 900})))["chat_template_kwargs"].is_null());
    let wanted = asked(Route::OpenaiChat, &chat(json!({"max_tokens": 32, "reasoning_effort": "low"})));
    assert_eq!(wanted["chat_template_kwargs"]["enable_thinking"], true);
}

#[test]
fn traps_45_to_47_templates_see_one_system_message_and_turns_that_alternate() {
    let body = json!({"model": "m", "messages": [
        {"role": "system", "content": "A"}, {"role": "developer", "content": "B"},
        {"role": "user", "content": "C"}, {"role": "user", "content": "D"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "E"},
    ]});
    let messages = asked(Route::OpenaiChat, &body)["messages"].clone();
    let seen: Vec<_> = messages.as_array().unwrap().iter().map(|one| (&one["role"], &one["content"])).collect();
    let expected = [("system", "A\n\nB"), ("user", "C\n\nD"), ("assistant", ""), ("tool", "E")];
    assert_eq!(
        seen,
        expected.map(|(role, text)| (json!(role), json!(text))).iter().map(|(a, b)| (a, b)).collect::<Vec<_>>()
    );
}

#[test]
fn trap_50_tools_of_responses_are_flat() {
    let body = json!({"model": "m", "input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]});
    assert_eq!(asked(Route::OpenaiResponses, &body)["tools"][0]["function"]["name"], "f");
}

#[test]
fn traps_53_and_55_defaults_of_streaming_and_seconds_as_text() {
    let hi = chat(json!({"max_tokens": 900, "keep_alive": "300"}));
    let streams = |route: Route| route.parse(hi.to_string().as_bytes()).unwrap().stream;
    assert_eq!([Route::OpenaiChat, Route::AnthropicMessages, Route::OllamaChat].map(streams), [false, false, true]);
    let kept = Route::OllamaChat.parse(hi.to_string().as_bytes()).unwrap().keep_alive;
    assert_eq!(kept, Some(blazar_core::chat::KeepAlive::Seconds(300.0)));
}

#[test]
fn trap_25_ollamas_results_find_their_calls_without_ids() {
    let call = |name: &str| json!({"function": {"name": name, "arguments": {}}});
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call("f"), call("g")]},
        {"role": "tool", "tool_name": "g", "content": "second"},
        {"role": "tool", "tool_name": "f", "content": "first"},
    ]});
    let messages = asked(Route::OllamaChat, &body)["messages"].clone();
    let id = |place: usize| messages[1]["tool_calls"][place]["id"].as_str().unwrap();
    assert_ne!(id(0), id(1));
    let result = |id: &str| {
        messages.as_array().unwrap().iter().find(|one| one["tool_call_id"] == id).unwrap()["content"].clone()
    };
    assert_eq!((result(id(0)), result(id(1))), (json!("first"), json!("second")));
}

#[test]
fn trap_34_ollamas_models_think_unless_told_not_to_and_anthropics_only_when_told() {
    let thinks = |route, more| asked(route, &chat(more))["chat_template_kwargs"]["enable_thinking"].clone();
    assert_eq!(thinks(Route::OllamaChat, json!({})), json!(null), "the template's own default");
    assert_eq!(thinks(Route::OllamaChat, json!({"think": false})), json!(false));
    assert_eq!(thinks(Route::AnthropicMessages, json!({"max_tokens": 900})), json!(false));
    let told = json!({"max_tokens": 3000, "thinking": {"type": "enabled", "budget_tokens": 1024}});
    assert_eq!(thinks(Route::AnthropicMessages, told), json!(true));
}

#[test]
fn traps_42_and_43_defaults_are_those_of_the_dialect() {
    let ollama = asked(Route::OllamaChat, &chat(json!({})));
    let (top_p, min_p) = (ollama["top_p"].as_f64().unwrap(), ollama["min_p"].as_f64().unwrap());
    assert!((top_p - 0.9).abs() < 1e-9 && min_p.abs() < 1e-9);
    let openai = asked(Route::OpenaiChat, &chat(json!({})));
    assert!(openai["top_p"].is_null() && openai["min_p"].is_null(), "the model's own");
    let unbounded = Route::AnthropicMessages.parse(chat(json!({})).to_string().as_bytes()).unwrap_err();
    assert_eq!(unbounded.path, "max_tokens");
}
