use super::*;
use crate::chat::Tool;

fn request(choice: ToolChoice) -> Request {
    let mut request = Request::new("m", Prompt::Chat(Vec::new()));
    for name in ["get_weather", "add"] {
        request.tools.push(Tool { name: name.into(), description: None, parameters: None, strict: false });
    }
    request.tool_choice = choice;
    request
}

/// What passes as text, and the calls, when `text` comes in pieces of `size` bytes (of characters that fit).
fn heard(choice: ToolChoice, text: &str, size: usize) -> (String, Vec<Found>) {
    let spoken = Spoken::of(&request(choice)).unwrap();
    let mut held = Held::default();
    let mut passed = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = size.min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        passed.push_str(&spoken.hear(&mut held, &rest[..end]));
        rest = &rest[end..];
    }
    let calls = spoken.calls(&held);
    if calls.is_empty() {
        passed.push_str(&held.release());
    }
    (passed, calls)
}

fn weather() -> Vec<Found> {
    vec![("get_weather".into(), r#"{"city": "Oslo"}"#.into())]
}

#[test]
fn a_call_is_found_however_it_is_wrapped_and_cut() {
    let call = r#"{"name": "get_weather", "arguments": {"city": "Oslo"}}"#;
    let other = r#"{"type":"function","function":{"name":"get_weather","parameters":{"city": "Oslo"}}}"#;
    for text in [
        call.to_owned(),
        format!("\n {call} \n"),
        format!("```json\n{call}\n```"),
        format!("<tool_call>\n{call}\n</tool_call>"),
        format!("[{call}]"),
        other.to_owned(),
        r#"{"arguments": {"city": "Oslo"}, "name": "get_weather"}"#.to_owned(),
    ] {
        for size in 1..=text.len() {
            assert_eq!(heard(ToolChoice::Auto, &text, size), (String::new(), weather()), "{text} by {size}");
        }
    }
}

#[test]
fn several_calls_are_several() {
    let text = "{\"name\":\"add\",\"arguments\":{\"a\":1}}\n{\"name\":\"add\"}";
    let expected = vec![("add".to_owned(), "{\"a\":1}".to_owned()), ("add".to_owned(), "{}".to_owned())];
    assert_eq!(heard(ToolChoice::Auto, text, 3), (String::new(), expected));
}

#[test]
fn what_is_no_call_passes_as_it_came() {
    for text in [
        "The weather in Oslo is fine.",
        r#"{"name": "Alice", "age": 30}"#,
        r#"{"name": "get_weather_now", "arguments": {}}"#,
        r#"{"name": "get_weather", "arguments": {"city": "Os"#,
        r#"{"name": "get_weather", "arguments": {}} I called it for you."#,
        r#"{"city": "Oslo"}"#,
        "[1, 2, 3]",
        "```python\nprint(1)\n```",
        "<b>bold</b>",
        "{}",
        "",
        "Straße {\"name\": \"add\"}",
    ] {
        for size in 1..=text.len().max(1) {
            assert_eq!(heard(ToolChoice::Auto, text, size), (text.to_owned(), Vec::new()), "by {size}");
        }
    }
}

#[test]
fn what_follows_a_call_that_had_to_come_is_noise() {
    let text = "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}.json\n```json\n{\n  \"name\"";
    assert_eq!(heard(ToolChoice::Required, text, 5), (String::new(), weather()));
    assert_eq!(heard(ToolChoice::Named("get_weather".into()), text, 5), (String::new(), weather()));
    assert_eq!(heard(ToolChoice::Named("add".into()), text, 5), (text.to_owned(), Vec::new()));
}

#[test]
fn text_is_passed_on_as_soon_as_it_is_known_to_be_no_call() {
    let spoken = Spoken::of(&request(ToolChoice::Auto)).unwrap();
    let mut held = Held::default();
    assert_eq!(spoken.hear(&mut held, " "), "");
    assert_eq!(spoken.hear(&mut held, "Hi"), " Hi");
    assert_eq!(spoken.hear(&mut held, "{\"name\""), "{\"name\"");
}

#[test]
fn without_tools_nothing_is_held() {
    assert!(Spoken::of(&Request::new("m", Prompt::Chat(Vec::new()))).is_none());
    assert!(Spoken::of(&request(ToolChoice::None)).is_none());
}

#[test]
fn a_call_that_had_to_come_is_enough_once_noise_follows() {
    let call = r#"{"name": "add", "arguments": {}}"#;
    for (choice, after, enough) in [
        (ToolChoice::Required, "", false),
        (ToolChoice::Required, "\n", false),
        (ToolChoice::Required, "\n{\"na", false),
        (ToolChoice::Required, "\n</tool_c", false),
        (ToolChoice::Required, ".", true),
        (ToolChoice::Required, "\nNow", true),
        (ToolChoice::Auto, ".", false),
    ] {
        let spoken = Spoken::of(&request(choice)).unwrap();
        let mut held = Held::default();
        spoken.hear(&mut held, call);
        assert!(!spoken.enough(&held));
        spoken.hear(&mut held, after);
        assert_eq!(spoken.enough(&held), enough, "{after:?}");
    }
}
