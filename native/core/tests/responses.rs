//! Bodies of OpenAI's Responses, and conversations that go on.
use blazar_core::chat::{Part, Prompt, Request, Role, Think, ThinkLevel};
use blazar_core::dialect::{Route, precede};
use serde_json::{Value, json};

fn parse(route: Route, body: &Value) -> Request {
    route.parse(body.to_string().as_bytes()).unwrap_or_else(|bad| panic!("{}: {}", bad.path, bad.message))
}

#[test]
fn openai_responses() {
    let read = |body: Value| parse(Route::OpenaiResponses, &body);
    let request = read(json!({"model": "m", "input": "Hi", "instructions": "Be brief.", "max_output_tokens": 9,
        "reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
        "tools": [{"type": "function", "name": "f", "parameters": {}}, {"type": "web_search"}, {"type": "namespace"}],
        "previous_response_id": "resp_1", "store": false}));
    let Prompt::Chat(turns) = &request.prompt else { panic!("a chat") };
    assert_eq!(turns.iter().map(|turn| turn.role).collect::<Vec<_>>(), [Role::System, Role::User]);
    assert_eq!(request.max_tokens, Some(9));
    assert_eq!(request.think, Think::On { level: Some(ThinkLevel::Low), budget: None });
    assert_eq!(
        (request.tools.len(), request.shape.dropped_tools.as_slice()),
        (1, ["web_search".into(), "namespace".into()].as_slice())
    );
    let shape = request.shape.response.as_deref().unwrap();
    assert!(shape.summary && shape.encrypted && !shape.store && !shape.background);
    assert_eq!(shape.previous.as_deref(), Some("resp_1"));
    assert_eq!(shape.items, r#"[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}]"#);
}

#[test]
fn a_response_goes_on_from_an_earlier_one() {
    let mut request = parse(
        Route::OpenaiResponses,
        &json!({"model": "m", "instructions": "New.", "input":
            [{"type": "function_call_output", "call_id": "c1", "output": "rain"}]}),
    );
    let earlier = json!([{"role": "user", "content": "Weather?"},
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "blz1.SG1t"},
        {"type": "message", "role": "assistant", "id": "msg", "status": "completed",
            "content": [{"type": "output_text", "text": "Checking", "annotations": []}]},
        {"type": "function_call", "id": "fc", "call_id": "c1", "name": "get", "arguments": "{}"},
        {"type": "web_search_call", "id": "ws"}]);
    precede(&mut request, earlier.to_string().as_bytes()).unwrap();
    let Prompt::Chat(turns) = &request.prompt else { panic!("a chat") };
    let roles: Vec<_> = turns.iter().map(|turn| (turn.role, turn.parts.len())).collect();
    assert_eq!(roles, [(Role::System, 1), (Role::User, 1), (Role::Assistant, 3), (Role::Tool, 1)]);
    assert!(matches!(&turns[2].parts[0], Part::Reasoning { text, .. } if text == "Hmm"));
    assert!(matches!(&turns[3].parts[0], Part::Result { name: Some(name), .. } if name == "get"));
    assert!(precede(&mut request, b"{}").is_err());
}
