//! Bodies that are wrong, and what their senders are told.
use blazar_core::dialect::Route;

#[test]
#[allow(clippy::too_many_lines)] // One line for each fault.
fn faults_name_their_place_and_what_would_be_right() {
    use Route::{
        AnthropicMessages as Anthropic, OllamaChat as Ollama, OllamaGenerate, OpenaiChat as Openai,
        OpenaiResponses as Responses, OpenaiText,
    };
    let chat = |more: &str| format!(r#"{{"model":"m","max_tokens":9,{more}}}"#);
    let message = |more: &str| chat(&format!(r#""messages":[{{"role":"user","content":"x"}},{more}]"#));
    let option = |more: &str| chat(&format!(r#""prompt":"x","messages":[{{"role":"user","content":"x"}}],{more}"#));
    for (route, body, path, words) in [
        (Openai, String::new(), "", "missing request body"),
        (Openai, "{\n  \"model\": \"m\",\n}".into(), "", "line 3, column 1"),
        (Openai, "[]".into(), "", "Expected an object, found an array"),
        (Openai, chat(r#""user":"x""#), "messages", "missing"),
        (Openai, "{}".into(), "model", "model is required"),
        (Ollama, "{}".into(), "model", "model is required"),
        (Openai, chat(r#""messages":[]"#), "messages", "at least one"),
        (Anthropic, chat(r#""messages":[]"#), "messages", "At least one message"),
        (Openai, chat(r#""messages":"hi""#), "messages", "Expected an array, found the string \"hi\""),
        (Openai, message(r#"{"role":"robot","content":"x"}"#), "messages[1].role", "found the string \"robot\""),
        (Ollama, message(r#"{"role":"robot","content":"x"}"#), "messages[1].role", "\"assistant\""),
        (Anthropic, message(r#"{"role":"tool","content":"x"}"#), "messages[1].role", "\"user\" or \"assistant\""),
        (Openai, message(r#"{"content":"x"}"#), "messages[1].role", "missing"),
        (Openai, message(r#"{"role":"user"}"#), "messages[1].content", "missing"),
        (Openai, message(r#"{"role":"assistant","content":null}"#), "messages[1].content", "tool_calls"),
        (
            Openai,
            message(r#"{"role":"user","content":[{"type":"hologram"}]}"#),
            "messages[1].content[0].type",
            "hologram",
        ),
        (
            Openai,
            message(r#"{"role":"user","content":[{"type":"text","text":5}]}"#),
            "messages[1].content[0].text",
            "the number 5",
        ),
        (
            Openai,
            message(r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///x/a.png"}}]}"#),
            "messages[1].content[0].image_url.url",
            "not read",
        ),
        (
            Anthropic,
            message(r#"{"role":"user","content":[{"type":"image","source":{"type":"url","url":"file:///x"}}]}"#),
            "messages[1].content[0].source.url",
            "not read",
        ),
        (Ollama, message(r#"{"role":"user","content":"x","images":["%%"]}"#), "messages[1].images[0]", "base64"),
        (Ollama, message(r#"{"role":"user","content":["x"]}"#), "messages[1].content", "found an array"),
        (Openai, message(r#"{"role":"tool","content":"x"}"#), "messages[1].tool_call_id", "missing"),
        (
            Openai,
            message(
                r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"a\": tru}"}}]}"#,
            ),
            "messages[1].tool_calls[0].function.arguments",
            "line 1, column 7",
        ),
        (
            Openai,
            message(r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"[1]"}}]}"#),
            "messages[1].tool_calls[0].function.arguments",
            "an array",
        ),
        (
            Anthropic,
            message(r#"{"role":"user","content":[{"type":"tool_use","id":"a","name":"f"}]}"#),
            "messages[1].content[0].type",
            "assistant",
        ),
        (
            Anthropic,
            message(r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":"x"}]}"#),
            "messages[1].content[0].input",
            "Expected an object",
        ),
        (Anthropic, r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#.into(), "max_tokens", "missing"),
        (Openai, option(r#""temperature":"hot""#), "temperature", "Expected a number, found the string \"hot\""),
        (Openai, option(r#""temperature":-1"#), "temperature", "at least 0"),
        (Openai, option(r#""temperature":1e999"#), "temperature", "out of range"),
        (Openai, option(r#""top_p":1.5"#), "top_p", "from 0 to 1"),
        (Openai, option(r#""n":0"#), "n", "from 1 to 128"),
        (Openai, option(r#""seed":1.5"#), "seed", "whole number"),
        (Openai, option(r#""stream":"yes""#), "stream", "true or false"),
        (Openai, option(r#""stop":["a",5]"#), "stop[1]", "Expected a string"),
        (Openai, option(r#""max_completion_tokens":0"#), "max_completion_tokens", "at least 1"),
        (Openai, option(r#""top_logprobs":2"#), "top_logprobs", "logprobs"),
        (Openai, option(r#""stream_options":{"include_usage":1}"#), "stream_options.include_usage", "true or false"),
        (Openai, option(r#""response_format":{"type":"xml"}"#), "response_format.type", "json_schema"),
        (
            Openai,
            option(r#""response_format":{"type":"json_schema","json_schema":{"name":"a"}}"#),
            "response_format.json_schema.schema",
            "missing",
        ),
        (Openai, option(r#""tools":[{"type":"web_search"}]"#), "tools[0].type", "\"function\""),
        (Openai, option(r#""tools":[{"type":"function","function":{"name":""}}]"#), "tools[0].function.name", "empty"),
        (
            Openai,
            option(r#""tools":[{"type":"function","function":{"name":"f","parameters":[]}}]"#),
            "tools[0].function.parameters",
            "an array",
        ),
        (Openai, option(r#""tool_choice":"required""#), "tool_choice", "no tools"),
        (Openai, option(r#""tool_choice":{"type":"function","function":{"name":"f"}}"#), "tool_choice", "\"f\""),
        (Openai, option(r#""modalities":["text","audio"]"#), "modalities[1]", "text"),
        (Openai, option(r#""keep_alive":"soon""#), "keep_alive", "invalid duration \"soon\""),
        (OpenaiText, option(r#""prompt":["a",{}]"#), "prompt[1]", "an object"),
        (OpenaiText, option(r#""prompt":["a","b"],"suffix":"c""#), "suffix", "one prompt"),
        (OpenaiText, option(r#""prompt":["a","b"],"n":100"#), "prompt", "found 200"),
        (Responses, option(r#""input":5"#), "input", "an array of items"),
        (Responses, option(r#""input":[{"role":"user","content":"a"},{"type":"x"}]"#), "input[1].type", "\"x\""),
        (
            Responses,
            option(r#""input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{"}]"#),
            "input[0].arguments",
            "not JSON",
        ),
        (
            Responses,
            option(r#""input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_file"}]}]"#),
            "input[0].output[0].type",
            "Files",
        ),
        (Responses, option(r#""input":"x","background":true,"store":false"#), "background", "store"),
        (Responses, option(r#""input":"x","tools":[{"name":"f"}]"#), "tools[0].type", "missing"),
        (Responses, option(r#""input":"x","conversation":"c""#), "conversation", "instructions"),
        (Responses, option(r#""input":"x","text":{"format":{"type":"xml"}}"#), "text.format.type", "xml"),
        (Responses, option(r#""input":"x","reasoning":{"effort":"huge"}"#), "reasoning.effort", "huge"),
        (OpenaiText, option(r#""prompt":[1,-2]"#), "prompt[1]", "token"),
        (OpenaiText, option(r#""best_of":3"#), "best_of", "n"),
        (OpenaiText, option(r#""echo":true,"logprobs":1"#), "echo", "Log probabilities"),
        (Ollama, option(r#""options":{"stop":"x"}"#), "options.stop", "array of strings"),
        (Ollama, option(r#""options":{"num_ctx":"big"}"#), "options.num_ctx", "whole number"),
        (Ollama, option(r#""think":"hard""#), "think", "\"medium\""),
        (Ollama, option(r#""format":"xml""#), "format", "JSON Schema"),
        (Ollama, option(r#""top_logprobs":21"#), "top_logprobs", "top_logprobs must be between 0 and 20"),
        (
            OllamaGenerate,
            option(r#""raw":true,"system":"x""#),
            "raw",
            "raw mode does not support template, system, or context",
        ),
        (OllamaGenerate, option(r#""context":[1]"#), "context", "/api/chat"),
        (OllamaGenerate, option(r#""raw":true,"context":[16757154,0]"#), "context", "/api/chat"),
        (OllamaGenerate, option(r#""raw":true,"images":["iVBORw0KGgo="]"#), "images", "template"),
        (Anthropic, option(r#""thinking":{"type":"enabled"}"#), "thinking.budget_tokens", "missing"),
        (Anthropic, option(r#""system":[{"type":"image"}]"#), "system[0].type", "\"text\""),
        (Anthropic, option(r#""tools":[{"type":"web_search_20250305","name":"w"}]"#), "tools", "web_search_20250305"),
        (Anthropic, option(r#""tool_choice":{"type":"tool","name":"f"}"#), "tool_choice.name", "\"f\""),
    ] {
        let bad = route.parse(body.as_bytes()).expect_err(&body);
        assert_eq!(bad.path, path, "{body}: {}", bad.message);
        assert!(bad.message.contains(words), "{body}: {}", bad.message);
    }
}
