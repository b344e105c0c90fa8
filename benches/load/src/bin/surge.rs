//! An open loop: requests come at a rate, whatever becomes of those before, as they do from people.
//!
//! Each has a connection of its own and, where there are several, the next of the keys. It says, as one JSON object: how
//! many were answered whole, how many refused (an error status with a body), given up by their client, or broken; how
//! long each kind took; how many were answered a second while requests came; and all of it by key.

use std::rc::Rc;
use std::time::Duration;

use blazar_load::now_ns;
use blazar_load::reply::Reply;
use blazar_load::stats::{Samples, milliseconds, real};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

const USAGE: &str = "usage: surge HOST:PORT --rate PER_SECOND --seconds S [--lead S] [--patience S] [--tokens N]
    [--pace PER_SECOND] [--path /v1/chat/completions] [--model NAME] [--key NAME=SECRET]...";

struct Options {
    address: String,
    rate: f64,
    seconds: f64,
    /// Until then the queue fills, and nothing is counted.
    lead: f64,
    patience: f64,
    messages: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Refused,
    Late,
    Broken,
}

struct Outcome {
    key: usize,
    end: End,
    began_ns: u64,
    ended_ns: u64,
    words: String,
}

fn main() {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => Rc::new(options),
        Err(what) => {
            eprintln!("surge: {what}\n{USAGE}");
            std::process::exit(2);
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("surge: {error}");
            std::process::exit(1);
        }
    };
    let (start, outcomes) = tokio::task::LocalSet::new().block_on(&runtime, all(options.clone()));
    println!("{}", report(&options, start, &outcomes));
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options =
        Options { address: String::new(), rate: 0.0, seconds: 0.0, lead: 0.0, patience: 60.0, messages: Vec::new() };
    let (mut tokens, mut pace, mut keys) = (20_u64, 100_u64, Vec::new());
    let (mut path, mut model) = ("/v1/chat/completions".to_owned(), "mock".to_owned());
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
        let number = |text: String| text.parse::<f64>().map_err(|_| format!("{text:?} is no number"));
        let count = |text: String| text.parse::<u64>().map_err(|_| format!("{text:?} is no number"));
        match word.as_str() {
            "--rate" => options.rate = number(value()?)?,
            "--seconds" => options.seconds = number(value()?)?,
            "--lead" => options.lead = number(value()?)?,
            "--patience" => options.patience = number(value()?)?,
            "--tokens" => tokens = count(value()?)?,
            "--pace" => pace = count(value()?)?,
            "--path" => path = value()?,
            "--model" => model = value()?,
            "--key" => {
                let text = value()?;
                let (name, secret) = text.split_once('=').ok_or_else(|| format!("{text:?} is no NAME=SECRET"))?;
                keys.push((name.to_owned(), format!("Authorization: Bearer {secret}\r\n")));
            }
            _ if word.starts_with("--") => return Err(format!("unknown option {word}")),
            _ => options.address.clone_from(&word),
        }
    }
    if options.address.is_empty() || options.rate <= 0.0 || options.seconds <= options.lead {
        return Err("an address, --rate, and --seconds that are more than --lead".to_owned());
    }
    if keys.is_empty() {
        keys.push((String::new(), String::new()));
    }
    for (name, header) in keys {
        let prompt = format!("mock(rate={pace},delay_ms=0,bytes=0,burst=1,tokens={tokens})");
        let said = json!([{"role": "user", "content": prompt}]);
        let body = json!({"model": model, "stream": true, "max_tokens": tokens, "messages": said}).to_string();
        let head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n", options.address);
        let rest = format!("{header}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        options.messages.push((name, format!("{head}{rest}").into_bytes()));
    }
    Ok(options)
}

async fn all(options: Rc<Options>) -> (u64, Vec<Outcome>) {
    let (start, begin) = (Instant::now(), now_ns());
    let mut tasks = Vec::new();
    let mut number = 0_u32;
    loop {
        let due = f64::from(number) / options.rate;
        if due >= options.seconds {
            break;
        }
        sleep_until(start + Duration::from_secs_f64(due)).await;
        let key = number as usize % options.messages.len();
        tasks.push(tokio::task::spawn_local(one(options.clone(), key)));
        number += 1;
    }
    let mut outcomes = Vec::with_capacity(tasks.len());
    for task in tasks {
        if let Ok(outcome) = task.await {
            outcomes.push(outcome);
        }
    }
    (begin, outcomes)
}

async fn one(options: Rc<Options>, key: usize) -> Outcome {
    let began_ns = now_ns();
    let asked = ask(&options.address, &options.messages[key].1);
    let (end, words) = match timeout(Duration::from_secs_f64(options.patience), asked).await {
        Err(_) => (End::Late, String::new()),
        Ok(Err(what)) => (End::Broken, what),
        Ok(Ok(reply)) if reply.status == 200 && reply.finished && !reply.failed => (End::Done, String::new()),
        Ok(Ok(reply)) if reply.status >= 400 => (End::Refused, format!("status {}", reply.status)),
        Ok(Ok(reply)) => (End::Broken, format!("status {} without a proper end", reply.status)),
    };
    Outcome { key, end, began_ns, ended_ns: now_ns(), words }
}

async fn ask(address: &str, message: &[u8]) -> Result<Reply, String> {
    let mut stream = TcpStream::connect(address).await.map_err(|error| format!("connect: {error}"))?;
    stream.write_all(message).await.map_err(|error| format!("write: {error}"))?;
    let mut reply = Reply::new();
    while !reply.ended() {
        let count = stream.read_buf(reply.buffer()).await.map_err(|error| format!("read: {error}"))?;
        if count == 0 {
            return Err(format!("closed (status {})", reply.status));
        }
        reply.advance(|_| {})?;
    }
    Ok(reply)
}

fn report(options: &Options, start: u64, outcomes: &[Outcome]) -> Value {
    let names: Vec<&str> = options.messages.iter().map(|(name, _)| name.as_str()).collect();
    let by_key: serde_json::Map<String, Value> = names
        .iter()
        .enumerate()
        .map(|(key, name)| ((*name).to_owned(), summary(options, start, outcomes.iter().filter(|one| one.key == key))))
        .collect();
    let mut whole = summary(options, start, outcomes.iter());
    whole["by_key"] = by_key.into();
    whole
}

fn summary<'a>(options: &Options, start: u64, outcomes: impl Iterator<Item = &'a Outcome>) -> Value {
    let mut times = [const { Vec::new() }; 4];
    let mut errors = std::collections::BTreeMap::<String, u64>::new();
    let mut counted = 0_u64;
    for one in outcomes {
        times[one.end as usize].push(one.ended_ns - one.began_ns);
        let at = milliseconds(one.ended_ns - start) / 1000.0;
        counted += u64::from(one.end == End::Done && at >= options.lead && at <= options.seconds);
        if matches!(one.end, End::Refused | End::Broken) {
            *errors.entry(one.words.clone()).or_default() += 1;
        }
    }
    let [done, refused, late, broken] = times.map(|list| {
        let mut samples = Samples::default();
        for value in list {
            samples.push(value);
        }
        samples.summary()
    });
    let per_s = real(counted) / (options.seconds - options.lead);
    json!({"done": done, "refused": refused, "late": late, "broken": broken, "done_per_s": per_s, "errors": errors})
}
