//! What a Modelfile sets for every request to its model.
use super::request::{message, options};
use crate::chat::{Part, Prompt, Request, Role, Turn};
use crate::dialect::BadBody;
use crate::dialect::read::{self, Under, each};

/// Put it on `request`, under what the client says itself.
pub(crate) fn dress(request: &mut Request, overlay: &[u8]) -> Result<(), BadBody> {
    read::body(overlay, |fields| {
        let mut own = Request::new("", Prompt::Chat(Vec::new()));
        fields.obj("parameters")?.map_or(Ok(()), |given| options(given, &mut own).under("parameters"))?;
        let examples = match fields.array("messages")? {
            Some(items) => each(items, message).under("messages")?,
            None => Vec::new(),
        };
        request.sampling = std::mem::take(&mut request.sampling).or(&own.sampling);
        request.max_tokens = request.max_tokens.or(own.max_tokens);
        request.num_ctx = request.num_ctx.or(own.num_ctx);
        if request.stop.is_empty() {
            request.stop = own.stop;
        }
        if let Prompt::Chat(turns) = &mut request.prompt {
            let template = fields.str("template")?.filter(|text| !text.is_empty());
            request.template = request.template.take().or_else(|| template.map(str::to_owned));
            let says = turns.first().is_some_and(|turn| turn.role == Role::System);
            let system = fields.str("system")?.filter(|text| !says && !text.is_empty());
            turns.splice(usize::from(says)..usize::from(says), examples);
            if let Some(text) = system {
                turns.insert(0, Turn { role: Role::System, parts: vec![Part::Text(text.to_owned())] });
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Route;

    const OVERLAY: &[u8] =
        br#"{"system":"Rhyme.","parameters":{"temperature":0.1,"stop":["x"],"num_ctx":4096,"num_predict":7},
        "messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;

    fn dressed(route: Route, body: &str) -> Request {
        let mut request = route.parse(body.as_bytes()).unwrap();
        dress(&mut request, OVERLAY).unwrap();
        request
    }

    fn roles(request: &Request) -> Vec<Role> {
        match &request.prompt {
            Prompt::Chat(turns) => turns.iter().map(|turn| turn.role).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_client_that_says_nothing_gets_all_of_it() {
        let request = dressed(Route::OpenaiChat, r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#);
        assert_eq!(
            (request.sampling.temperature, request.max_tokens, request.num_ctx),
            (Some(0.1), Some(7), Some(4096))
        );
        assert_eq!(request.stop, ["x"]);
        assert_eq!(roles(&request), [Role::System, Role::User, Role::Assistant, Role::User]);
    }

    #[test]
    fn what_the_client_says_counts_more() {
        let body = r#"{"model":"m","messages":[{"role":"system","content":"Mine."},{"role":"user","content":"Hi"}],
            "options":{"temperature":0.5,"stop":["y"],"num_predict":3}}"#;
        let request = dressed(Route::OllamaChat, body);
        assert_eq!((request.sampling.temperature, request.max_tokens), (Some(0.5), Some(3)));
        assert_eq!(request.stop, ["y"]);
        assert_eq!(roles(&request), [Role::System, Role::User, Role::Assistant, Role::User]);
        let Prompt::Chat(turns) = &request.prompt else { panic!("a chat") };
        assert!(matches!(&turns[0].parts[0], Part::Text(text) if text == "Mine."));
    }

    #[test]
    fn the_dialects_defaults_come_last() {
        let request = dressed(Route::OllamaGenerate, r#"{"model":"m","prompt":"Hi","raw":true}"#);
        assert_eq!((request.sampling.temperature, request.defaults.temperature), (Some(0.1), Some(0.8)));
        assert!(roles(&request).is_empty());
    }
}
