//! Any bytes sent to any route are a request, or a fault that can be put into words.
#![no_main]
use blazar_core::dialect::Route;
use libfuzzer_sys::fuzz_target;

const ROUTES: [&str; 6] =
    ["openai.chat", "openai.text", "ollama.chat", "ollama.generate", "anthropic.messages", "anthropic.count"];

fuzz_target!(|input: &[u8]| {
    let [which, body @ ..] = input else { return };
    let route = Route::from_name(ROUTES[usize::from(*which) % ROUTES.len()]).expect("it is a route");
    if let Err(fault) = route.parse(body) {
        assert!(!fault.message.is_empty());
    }
});
