//! Bodies as clients send them, and what they mean.
use blazar_core::chat::{Format, KeepAlive, Part, Prompt, Request, Role, Think, ThinkLevel, ToolChoice, Turn};
use blazar_core::dialect::Route;
use serde_json::{Value, json};

const PNG: &str = "iVBORw0KGgo=";

fn parse(route: Route, body: &Value) -> Request {
    route.parse(body.to_string().as_bytes()).unwrap_or_else(|bad| panic!("{}: {}", bad.path, bad.message))
}

fn turns(request: &Request) -> &[Turn] {
    match &request.prompt {
        Prompt::Chat(turns) => turns,
        other => panic!("{other:?}"),
    }
}

/// `role: part part`, one line for each turn.
fn said(request: &Request) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => format!("{text:?}"),
        Part::Image { mime, base64 } => format!("<{mime} {base64}>"),
        Part::Link(url) => format!("<{url}>"),
        Part::Audio { format, .. } => format!("<{format}>"),
        Part::Reasoning { text, signature } => format!("({text} {})", signature.as_deref().unwrap_or("-")),
        Part::Call { id, name, arguments } => format!("{id}={name}{arguments}"),
        Part::Result { id, name, text, is_error } => {
            format!("{id}->{}:{text:?}{}", name.as_deref().unwrap_or("?"), if *is_error { "!" } else { "" })
        }
    };
    let line = |turn: &Turn| {
        let role = match turn.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        let parts: Vec<_> = turn.parts.iter().map(part).collect();
        format!("{role}: {}", parts.join(" "))
    };
    turns(request).iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn openai_conversations() {
    let request = parse(
        Route::OpenaiChat,
        &json!({"model": "m", "unknown": [1], "messages": [
            {"role": "developer", "content": "Be brief.", "name": null},
            {"role": "user", "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}"), "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                "and this",
            ]},
            {"role": "assistant", "content": null, "refusal": null, "reasoning_content": "Hm", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1.50}"}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
                {"id": "c", "type": "custom", "custom": {"name": "h", "input": "a\"b"}}]},
            {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]},
            {"role": "tool", "tool_call_id": "a", "content": ""},
            {"role": "assistant", "content": "Done", "tool_calls": null, "function_call": {"name": "old", "arguments": {"k": 2}}},
            {"role": "function", "name": "old", "content": null},
        ]}),
    );
    let wanted = [
        "system: \"Be brief.\"",
        "user: \"Look\" <image/png iVBORw0KGgo=> <wav> \"and this\"",
        "assistant: (Hm -) a=f{\"x\": 1.50} b=g{} c=h{\"input\":\"a\\\"b\"}",
        "tool: b->g:\"12\"",
        "tool: a->f:\"\"",
        "assistant: \"Done\" call_3=old{\"k\":2}",
        "tool: call_3->old:\"\"",
    ];
    assert_eq!(said(&request), wanted.join("\n"));
    assert!(!request.stream);
}

#[test]
fn openai_parameters() {
    let request = parse(
        Route::OpenaiChat,
        &json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "max_completion_tokens": 7,
            "temperature": 0, "top_p": 0.5, "top_k": 3.0, "seed": 11, "stop": ["", "END"], "n": 2, "stream": true,
            "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 3, "keep_alive": "30s",
            "presence_penalty": null, "logit_bias": {"12": -100}, "reasoning_effort": "minimal", "parallel_tool_calls": false,
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": true, "schema":
                {"z": 1, "a": 2}}}}),
    );
    assert_eq!(request.max_tokens, Some(7));
    assert_eq!(request.sampling.temperature, Some(0.0));
    assert_eq!((request.sampling.top_k, request.sampling.seed), (Some(3), Some(11)));
    assert_eq!(request.sampling.presence_penalty, None);
    assert_eq!(request.sampling.logit_bias.unwrap().get(), r#"{"12":-100}"#);
    assert_eq!(request.stop, ["END"]);
    assert_eq!((request.n, request.stream, request.include_usage), (2, true, true));
    assert_eq!(request.logprobs, Some(3));
    assert_eq!(request.keep_alive, Some(KeepAlive::Seconds(30.0)));
    assert_eq!(request.think, Think::On { level: Some(ThinkLevel::Low), budget: None });
    assert_eq!(request.parallel_tool_calls, Some(false));
    // Key order is the order in which a model writes them.
    assert!(
        matches!(request.format, Format::Schema { name, schema, strict: true } if name == "s" && schema.get() == r#"{"z":1,"a":2}"#)
    );

    let body = |more: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],{more}}}"#);
    let read = |more: &str| Route::OpenaiChat.parse(body(more).as_bytes()).unwrap();
    assert_eq!(read(r#""stop":"END""#).stop, ["END"]);
    assert_eq!(read(r#""model":"n""#).model, "n", "of a repeated key the last counts");
    assert_eq!(read(r#""reasoning_effort":"none""#).think, Think::Off);
    assert_eq!(read(r#""chat_template_kwargs":{"enable_thinking":false}"#).think, Think::Off);
    assert_eq!(read(r#""stream":null,"stop":null,"tools":null,"n":null"#).n, 1);
}

#[test]
fn openai_tools() {
    let tools = json!([
        {"type": "function", "function": {"name": "f", "description": "F", "strict": true, "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "g"}}]);
    let body = |more: Value| {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parse(Route::OpenaiChat, &body)
    };
    let request = body(json!({"tool_choice": "required"}));
    assert_eq!(request.tool_choice, ToolChoice::Required);
    assert_eq!(request.tools.len(), 2);
    assert!(request.tools[0].strict);
    assert_eq!(request.tools[0].parameters.as_ref().unwrap().get(), r#"{"type":"object"}"#);
    assert_eq!(request.shape.custom_tools, ["g"]);
    let named = body(json!({"tool_choice": {"type": "function", "function": {"name": "f"}}}));
    assert_eq!(named.tool_choice, ToolChoice::Named("f".into()));
    let allowed = body(json!({"tool_choice": {"type": "allowed_tools", "allowed_tools":
        {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]}}}));
    assert_eq!((allowed.tools.len(), allowed.tool_choice), (1, ToolChoice::Required));
    let old = parse(
        Route::OpenaiChat,
        &json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "functions": [{"name": "f"}],
            "function_call": {"name": "f"}}),
    );
    assert!(old.shape.legacy_functions);
    assert_eq!(old.tool_choice, ToolChoice::Named("f".into()));
}

#[test]
fn openai_text() {
    let read = |body: Value| parse(Route::OpenaiText, &body);
    let request = read(json!({"model": "m", "prompt": ["Once"], "suffix": "end", "echo": true}));
    assert!(
        matches!(request.prompt, Prompt::Text { prompt, suffix: Some(suffix), echo: true } if prompt == "Once" && suffix == "end")
    );
    assert_eq!(request.max_tokens, Some(16));
    for prompt in [json!([1, 2, 3]), json!([[1, 2, 3]])] {
        let request = read(json!({"model": "m", "prompt": prompt, "max_tokens": 0, "logprobs": 2}));
        assert!(matches!(request.prompt, Prompt::Tokens(tokens) if tokens == [1, 2, 3]));
        assert_eq!((request.max_tokens, request.logprobs), (Some(0), Some(2)));
    }
    let several = read(json!({"model": "m", "prompt": ["a", [1, 2]], "n": 3}));
    assert_eq!(several.answers(), 6);
    let Prompt::Several(prompts) = several.prompt else { panic!("several") };
    assert!(
        matches!(&prompts[..], [Prompt::Text { prompt, .. }, Prompt::Tokens(tokens)] if prompt == "a" && *tokens == [1, 2])
    );
}

#[test]
fn ollama_chat() {
    let request = parse(
        Route::OllamaChat,
        &json!({"model": "m", "think": "max", "format": {"type": "object"}, "keep_alive": -1, "messages": [
            {"role": "System", "content": "Be brief."},
            {"role": "user", "content": "Look", "images": [PNG, "SUQzBAAAAAAA"]},
            {"role": "assistant", "content": "", "thinking": "Hm", "tool_calls": [
                {"function": {"name": "f", "arguments": {"b": 1.0, "a": "x y"}}}, {"function": {"name": "g", "arguments": "{}"}}]},
            {"role": "tool", "content": "2", "tool_name": "g"}, {"role": "tool", "content": "1"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            "options": {"num_ctx": 8192, "num_predict": 40.0, "temperature": 0.1, "stop": ["a", "b"], "top_k": null, "numa": true}}),
    );
    let wanted = [
        "system: \"Be brief.\"",
        "user: \"Look\" <image/png iVBORw0KGgo=> <mp3>",
        "assistant: (Hm -) call_0=f{\"b\":1.0,\"a\":\"x y\"} call_1=g{}",
        "tool: call_1->g:\"2\"",
        "tool: call_0->f:\"1\"",
    ];
    assert_eq!(said(&request), wanted.join("\n"));
    assert!(request.stream, "Ollama streams unless told otherwise");
    assert_eq!((request.num_ctx, request.max_tokens), (Some(8192), Some(40)));
    assert_eq!(request.stop, ["a", "b"]);
    assert_eq!(request.keep_alive, Some(KeepAlive::Forever));
    assert_eq!(request.think, Think::On { level: Some(ThinkLevel::High), budget: None });
    // What the client leaves out has Ollama's value, not the engine's.
    let sampling = request.sampling.clone().or(&request.defaults);
    assert_eq!((sampling.temperature, sampling.top_p, sampling.top_k), (Some(0.1), Some(0.9), Some(40)));
    assert_eq!((sampling.min_p, sampling.repeat_last_n, sampling.seed), (Some(0.0), Some(64), Some(-1)));
}

#[test]
fn ollama_loads_and_unloads() {
    for (route, body) in [
        (Route::OllamaChat, json!({"model": "m"})),
        (Route::OllamaChat, json!({"model": "m", "messages": [], "keep_alive": 0})),
        (Route::OllamaGenerate, json!({"model": "m", "prompt": "", "keep_alive": 0, "context": []})),
        (Route::OllamaGenerate, json!({"model": "m", "keep_alive": "0s", "system": "x"})),
    ] {
        let request = parse(route, &body);
        assert!(request.load_only, "{body}");
        assert_eq!(request.keep_alive, body.get("keep_alive").map(|_| KeepAlive::Seconds(0.0)));
    }
    assert!(!parse(Route::OllamaGenerate, &json!({"model": "m", "prompt": "", "suffix": "x"})).load_only);
}

#[test]
fn ollama_generate() {
    let read = |body: Value| parse(Route::OllamaGenerate, &body);
    let request = read(json!({"model": "m", "prompt": "Hi", "system": "Be brief.", "images": [PNG], "stream": false}));
    assert_eq!(said(&request), "system: \"Be brief.\"\nuser: \"Hi\" <image/png iVBORw0KGgo=>");
    let request =
        read(json!({"model": "m", "prompt": "Hi", "raw": true, "format": "", "options": {"num_predict": -1}}));
    assert!(matches!(request.prompt, Prompt::Text { prompt, suffix: None, echo: false } if prompt == "Hi"));
    assert_eq!(request.max_tokens, None);
    let request = read(json!({"model": "m", "prompt": "Hi", "suffix": "ho", "format": "json"}));
    assert!(matches!(request.prompt, Prompt::Text { suffix: Some(suffix), .. } if suffix == "ho"));
    assert!(matches!(request.format, Format::Json));
}

#[test]
fn anthropic_conversations() {
    let request = parse(
        Route::AnthropicMessages,
        &json!({"model": "m", "max_tokens": 9, "system": [
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "Please."}],
            "messages": [
            {"role": "user", "content": "One"}, {"role": "user", "content": [{"type": "text", "text": "Two"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "sig"}, {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "So"}, {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1.0}},
                {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}}]},
            {"role": "user", "content": [
                {"type": "text", "text": "Here"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true, "content": "bad"},
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [
                    {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]},
                {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "doc"}}]},
            {"role": "assistant", "content": "{ "}],
            "thinking": {"type": "enabled", "budget_tokens": 2048}, "stop_sequences": ["\n", "END"], "stream": true}),
    );
    let wanted = [
        "system: \"Be brief.\\nPlease.\"",
        "user: \"One\" \"Two\"",
        "assistant: (Hm sig) \"So\" toolu_1=f{\"a\":1.0} toolu_2=g{}",
        "tool: toolu_2->g:\"bad\"!",
        "tool: toolu_1->f:\"a\\nb\" <image/png iVBORw0KGgo=>",
        "user: \"Here\" \"T\\n\\ndoc\"",
        "assistant: \"{\"",
    ];
    assert_eq!(said(&request), wanted.join("\n"));
    assert_eq!(request.think, Think::Off, "an answer that the client began has no thinking before it");
    assert_eq!(request.stop, ["END"]);
    assert_eq!((request.max_tokens, request.stream), (Some(9), true));
}

#[test]
fn anthropic_parameters() {
    let read = |more: Value| {
        let mut body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parse(Route::AnthropicMessages, &body)
    };
    assert_eq!(read(json!({})).think, Think::Off);
    let budget = read(json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}));
    assert_eq!(budget.think, Think::On { level: None, budget: Some(2048) });
    let adaptive =
        read(json!({"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "high"}}));
    assert_eq!(adaptive.think, Think::On { level: Some(ThinkLevel::High), budget: None });
    assert!(adaptive.shape.omit_thinking);
    let format = read(json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}));
    assert!(matches!(format.format, Format::Schema { .. }));
    let tools = read(json!({"tools": [
        {"name": "f", "input_schema": {"type": "object"}}, {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true}}));
    assert_eq!(tools.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["f", "bash"]);
    assert!(tools.tools[1].parameters.as_ref().unwrap().get().contains("command"));
    assert_eq!(tools.shape.dropped_tools, ["web_search_20250305"]);
    assert_eq!((tools.tool_choice, tools.parallel_tool_calls), (ToolChoice::Required, Some(false)));
    let count = parse(Route::AnthropicCount, &json!({"model": "m", "messages": [{"role": "user", "content": "x"}]}));
    assert_eq!(said(&count), "user: \"x\"");
}

#[test]
fn no_cut_of_a_body_panics() {
    let body = json!({"model": "m", "max_tokens": 1, "prompt": "x", "messages": [
        {"role": "user", "content": [{"type": "text", "text": "\u{e9}\u{1f98a}\n"}]}], "tools": [], "options": {"seed": 1}})
    .to_string();
    let routes =
        ["openai.chat", "openai.text", "ollama.chat", "ollama.generate", "anthropic.messages", "anthropic.count"];
    for route in routes.map(|name| Route::from_name(name).unwrap()) {
        for end in 0..body.len() {
            assert!(route.parse(&body.as_bytes()[..end]).is_err());
        }
        let mut bytes = body.clone().into_bytes();
        for at in 0..bytes.len() {
            for other in [b'"', b'{', b'0', 0xFF] {
                let byte = std::mem::replace(&mut bytes[at], other);
                let _ = route.parse(&bytes);
                bytes[at] = byte;
            }
        }
    }
}

#[test]
fn lanes() {
    use blazar_core::admission::Lane;
    let tool = json!([{"type": "function", "function": {"name": "f"}}]);
    let hi = json!([{"role": "user", "content": "Hi"}]);
    for (route, body, lane) in [
        (Route::OpenaiChat, json!({"model": "m", "messages": hi, "tools": tool}), Lane::Tools),
        (Route::OpenaiChat, json!({"model": "m", "messages": hi}), Lane::Chat),
        (Route::OpenaiText, json!({"model": "m", "prompt": "Once", "max_tokens": 64}), Lane::Chat),
        (Route::OpenaiText, json!({"model": "m", "prompt": "Once", "max_tokens": 4000}), Lane::Long),
        (Route::OpenaiText, json!({"model": "m", "prompt": "Once", "suffix": "end", "max_tokens": 4000}), Lane::Chat),
        (Route::OllamaGenerate, json!({"model": "m", "prompt": "Once", "raw": true}), Lane::Long),
        (Route::OllamaGenerate, json!({"model": "m", "prompt": "Once", "template": "{{ .Prompt }}"}), Lane::Chat),
    ] {
        let mut request = route.parse(body.to_string().as_bytes()).unwrap();
        blazar_core::dialect::render(&mut request, 0).unwrap();
        assert_eq!(request.lane(), lane, "{body}");
    }
}
