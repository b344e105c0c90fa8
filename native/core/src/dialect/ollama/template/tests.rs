use super::*;
use crate::dialect::Route;
use serde_json::json;

const CHATML: &str = "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}{{ if .Prompt }}<|im_start|>user\n{{ .Prompt }}<|im_end|>\n{{ end }}<|im_start|>assistant\n{{ .Response }}<|im_end|>\n";

const MODERN: &str = r#"{{- if or .System .Tools }}<|im_start|>system
{{- if .System }}
{{ .System }}
{{- end }}
{{- if .Tools }}
<tools>
{{- range .Tools }}
{"type": "function", "function": {{ .Function }}}
{{- end }}
</tools>
{{- end }}<|im_end|>
{{ end }}
{{- range $i, $_ := .Messages }}
{{- $last := eq (len (slice $.Messages $i)) 1 -}}
{{- if eq .Role "user" }}<|im_start|>user
{{ .Content }}<|im_end|>
{{ else if eq .Role "assistant" }}<|im_start|>assistant
{{ if .Content }}{{ .Content }}
{{- else if .ToolCalls }}<tool_call>
{{ range .ToolCalls }}{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
{{ end }}</tool_call>
{{- end }}{{ if not $last }}<|im_end|>
{{ end }}
{{- else if eq .Role "tool" }}<|im_start|>user
<tool_response>
{{ .Content }}
</tool_response><|im_end|>
{{ end }}
{{- if and (ne .Role "assistant") $last }}<|im_start|>assistant
{{ end }}
{{- end }}"#;

fn rendered(template: &str, body: &str) -> Result<String, Broken> {
    let request = Route::OllamaChat.parse(body.as_bytes()).unwrap();
    let crate::chat::Prompt::Chat(turns) = &request.prompt else { panic!("a chat") };
    render(template, &request, turns, "2026-12-02")
}

fn one(template: &str) -> Result<String, Broken> {
    rendered(template, r#"{"model":"m","messages":[{"role":"system","content":"Be."},{"role":"user","content":"Hi"}]}"#)
}

const LONG: &str = r#"{"model":"m","messages":[{"role":"system","content":"Be."},{"role":"user","content":"Hi"},
    {"role":"assistant","content":"Ho"},{"role":"user","content":"And?"}]}"#;

#[test]
fn an_older_template_is_run_for_each_exchange() {
    assert_eq!(
        rendered(CHATML, LONG).unwrap(),
        "<|im_start|>system\nBe.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n\
         <|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(one("{{ .Prompt }}: ").unwrap(), "Hi: ");
}

#[test]
fn a_newer_one_goes_through_the_messages() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Weather?"},
        {"role":"assistant","tool_calls":[{"function":{"name":"look","arguments":{"z":1,"city":"Bonn"}}}]},
        {"role":"tool","tool_name":"look","content":"Rain"}],
        "tools":[{"type":"function","function":{"name":"look","description":"Looks","parameters":{"type":"object"}}}]}"#;
    assert_eq!(
        rendered(MODERN, body).unwrap(),
        "<|im_start|>system\n<tools>\n{\"type\": \"function\", \"function\": {\"name\":\"look\",\"description\":\"Looks\",\
         \"parameters\":{\"type\":\"object\"}}}\n</tools><|im_end|>\n<|im_start|>user\nWeather?<|im_end|>\n\
         <|im_start|>assistant\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"z\":1,\"city\":\"Bonn\"}}\n</tool_call>\
         <|im_end|>\n<|im_start|>user\n<tool_response>\nRain\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn the_language() {
    for (template, text) in [
        ("a {{- /* gone */ -}} b{{ .Response }}", "ab"),
        (r#"{{ printf "%s-%d%%" "x" 3 }}{{ .Response }}"#, "x-3%"),
        (r"{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}{{ .Response }}", "2"),
        (r"{{ range $i, $m := .Messages }}{{ if gt $i 0 }}, {{ end }}{{ $m.Role }}{{ end }}", "system, user"),
        (r"{{ with .Nothing }}a{{ else }}b{{ end }}{{ range .Messages }}{{ break }}{{ end }}", "b"),
        (r"{{ (index .Messages 1).Content | json }}", "\"Hi\""),
        (r#"{{ range .Messages }}{{ if eq .Role "system" }}{{ continue }}{{ end }}{{ .Content }}{{ end }}"#, "Hi"),
        (r#"{{ currentDate }}{{ "}}" }}{{ .Response }}"#, "2026-12-02}}"),
        (r#"{{ len .Messages }}{{ and 1 0 }}{{ or 0 "a" }}{{ not .Tools }}"#, "20atrue"),
    ] {
        assert_eq!(one(template).as_deref(), Ok(text), "{template}");
    }
}

#[test]
fn what_is_broken_is_said() {
    for (template, why) in [
        ("{{ .Prompt", "an action is not closed"),
        ("{{ if .Prompt }}x", "an {{if}} is not closed"),
        ("{{ end }}", "there is an {{end}} too many"),
        ("{{ frobnicate .Prompt }}", "the function frobnicate is not known"),
        ("{{ index .Messages 9 }}", "an index is beyond the end of its list"),
        ("{{ $y }}", "$y is not declared"),
        ("{{ ) }}", "an action is empty"),
        ("{{ template \"x\" }}", "template is not supported"),
    ] {
        assert_eq!(one(template), Err(Broken(why.into())), "{template}");
    }
    assert!(one(&"{{ if 1 }}".repeat(1000)).is_err());
    assert!(one(&format!("{{{{ {}1 }}}}", "(".repeat(1000))).is_err());
    let nested = format!("{}x{}", "{{ range $.Messages }}{{ range $.Messages }}".repeat(20), "{{ end }}".repeat(40));
    let long = json!({"model": "m", "messages": vec![json!({"role": "tool", "content": "x"}); 1000]}).to_string();
    let twice = "{{ range .Messages }}{{ range $.Messages }}{{ if slice $.Messages 0 }}{{ end }}{{ end }}{{ end }}";
    assert_eq!(rendered(twice, &long), Err(Broken("it makes too much of this conversation".into())));
    assert_eq!(one(&nested), Err(Broken("it makes too much of this conversation".into())));
}
