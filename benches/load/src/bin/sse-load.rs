//! A closed loop of chat requests over keep-alive connections, which looks at every streamed chunk.
//!
//! It says, as one JSON object: time to the first text, the way of each chunk (from the stamp that the stand-in engine
//! put in to its arrival here, on the one monotonic clock of the machine), the gaps between chunks, rates, bytes, and
//! every chunk that was missing, doubled or out of order. A failed request counts as failed; it is never left out.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use blazar_load::reply::Reply;
use blazar_load::stats::{Samples, milliseconds, real};
use blazar_load::{Stamp, now_ns};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const USAGE: &str = "usage: sse-load HOST:PORT [--connections N] [--requests N | --seconds S] [--warmup N] [--plain]
    [--tokens N] [--rate N] [--delay-ms N] [--bytes N] [--burst N] [--think-ms N] [--ramp-ms N] [--prompt-bytes N]
    [--path /v1/chat/completions] [--model NAME]... [--key KEY] [--usage]";

struct Options {
    address: String,
    path: String,
    connections: u64,
    requests: u64,
    seconds: f64,
    warmup: u64,
    plain: bool,
    tokens: u64,
    think_ms: u64,
    ramp_ms: u64,
    /// One per model, taken in turn by the connections.
    messages: Vec<Vec<u8>>,
}

/// What one connection saw, and then what all saw together.
#[derive(Default)]
struct Seen {
    first: Samples,
    total: Samples,
    way: Samples,
    gaps: Samples,
    requests: u64,
    chunks: u64,
    events: u64,
    bytes: u64,
    missing: u64,
    doubled: u64,
    unordered: u64,
    connects: u64,
    began_ns: u64,
    ended_ns: u64,
    errors: BTreeMap<String, u64>,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.first.extend(&other.first);
        self.total.extend(&other.total);
        self.way.extend(&other.way);
        self.gaps.extend(&other.gaps);
        self.requests += other.requests;
        self.chunks += other.chunks;
        self.events += other.events;
        self.bytes += other.bytes;
        self.missing += other.missing;
        self.doubled += other.doubled;
        self.unordered += other.unordered;
        self.connects += other.connects;
        if other.began_ns > 0 && (self.began_ns == 0 || other.began_ns < self.began_ns) {
            self.began_ns = other.began_ns;
        }
        self.ended_ns = self.ended_ns.max(other.ended_ns);
        for (what, count) in &other.errors {
            *self.errors.entry(what.clone()).or_default() += count;
        }
    }
}

/// Which chunks of one answer came.
#[derive(Default)]
struct Order {
    next: u64,
    skipped: HashSet<u64>,
    doubled: u64,
    unordered: u64,
}

impl Order {
    fn see(&mut self, sequence: u64) {
        if sequence >= self.next {
            self.skipped.extend(self.next..sequence);
            self.next = sequence + 1;
        } else if self.skipped.remove(&sequence) {
            self.unordered += 1;
        } else {
            self.doubled += 1;
        }
    }

    fn missing(&self, expected: u64) -> u64 {
        self.skipped.len() as u64 + expected.saturating_sub(self.next)
    }
}

fn main() {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => Rc::new(options),
        Err(what) => {
            eprintln!("sse-load: {what}\n{USAGE}");
            std::process::exit(2);
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("sse-load: {error}");
            std::process::exit(1);
        }
    };
    let seen = tokio::task::LocalSet::new().block_on(&runtime, all(options));
    println!("{}", report(seen));
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        address: String::new(),
        path: "/v1/chat/completions".to_owned(),
        connections: 1,
        requests: 0,
        seconds: 0.0,
        warmup: 0,
        plain: false,
        tokens: 16,
        think_ms: 0,
        ramp_ms: 0,
        messages: Vec::new(),
    };
    let (mut rate, mut delay_ms, mut bytes, mut burst, mut prompt_bytes) = (0, 0, 0, 1, 0);
    let (mut models, mut key, mut usage) = (Vec::new(), None, false);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text:?} is no number"));
        match word.as_str() {
            "--connections" => options.connections = number(value()?)?,
            "--requests" => options.requests = number(value()?)?,
            "--seconds" => options.seconds = value()?.parse().map_err(|_| "--seconds wants a number")?,
            "--warmup" => options.warmup = number(value()?)?,
            "--plain" => options.plain = true,
            "--usage" => usage = true,
            "--tokens" => options.tokens = number(value()?)?,
            "--rate" => rate = number(value()?)?,
            "--delay-ms" => delay_ms = number(value()?)?,
            "--bytes" => bytes = number(value()?)?,
            "--burst" => burst = number(value()?)?,
            "--think-ms" => options.think_ms = number(value()?)?,
            "--ramp-ms" => options.ramp_ms = number(value()?)?,
            "--prompt-bytes" => prompt_bytes = number(value()?)?,
            "--path" => options.path = value()?,
            "--model" => models.push(value()?),
            "--key" => key = Some(value()?),
            _ if word.starts_with("--") => return Err(format!("unknown option {word}")),
            _ => options.address.clone_from(&word),
        }
    }
    if options.address.is_empty() || (options.requests == 0 && options.seconds <= 0.0) {
        return Err("an address, and --requests or --seconds".to_owned());
    }
    if models.is_empty() {
        models.push("mock".to_owned());
    }
    let tokens = options.tokens;
    let pad = "word ".repeat(usize::try_from(prompt_bytes / 5).unwrap_or(0));
    let prompt = format!("mock(rate={rate},delay_ms={delay_ms},bytes={bytes},burst={burst},tokens={tokens}) {pad}");
    for model in models {
        let mut body = json!({
            "model": model, "stream": !options.plain, "max_tokens": tokens, "temperature": 0,
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt}],
        });
        if usage && !options.plain {
            body["stream_options"] = json!({"include_usage": true});
        }
        let body = body.to_string();
        let authorization = key.as_ref().map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        options.messages.push(
            format!(
                "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{authorization}Content-Length: {}\r\n\r\n{body}",
                options.path,
                options.address,
                body.len()
            )
            .into_bytes(),
        );
    }
    Ok(options)
}

async fn all(options: Rc<Options>) -> Seen {
    let tickets = Rc::new(std::cell::Cell::new(0));
    let start = now_ns();
    let tasks: Vec<_> = (0..options.connections)
        .map(|index| tokio::task::spawn_local(connection(options.clone(), tickets.clone(), index, start)))
        .collect();
    let mut seen = Seen::default();
    for task in tasks {
        match task.await {
            Ok(one) => seen.add(&one),
            Err(error) => *seen.errors.entry(format!("the load tool broke: {error}")).or_default() += 1,
        }
    }
    seen
}

async fn connection(options: Rc<Options>, tickets: Rc<std::cell::Cell<u64>>, index: u64, start: u64) -> Seen {
    let mut seen = Seen::default();
    let mut reply = Reply::new();
    let mut socket: Option<TcpStream> = None;
    let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(index + 1);
    let turn = usize::try_from(index).unwrap_or(0) % options.messages.len();
    sleep(Duration::from_micros(options.ramp_ms * 1000 * index / options.connections)).await;
    loop {
        let ticket = tickets.get();
        let over = options.seconds > 0.0 && milliseconds(now_ns() - start) > options.seconds * 1000.0;
        if over || (options.requests > 0 && ticket >= options.requests + options.warmup) {
            return seen;
        }
        tickets.set(ticket + 1);
        if options.think_ms > 0 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            sleep(Duration::from_micros(random % (options.think_ms * 2000))).await;
        }
        let mut fresh = Seen::default();
        let one = exchange(&options, &options.messages[turn], &mut socket, &mut reply, &mut fresh);
        let outcome = timeout(Duration::from_secs(120), one).await.unwrap_or_else(|_| Err("timed out".to_owned()));
        if let Err(what) = outcome {
            *fresh.errors.entry(what).or_default() += 1;
            socket = None;
            sleep(Duration::from_millis(5)).await;
        }
        if ticket >= options.warmup {
            seen.add(&fresh);
        }
    }
}

/// One request and its whole answer.
async fn exchange(
    options: &Options,
    message: &[u8],
    socket: &mut Option<TcpStream>,
    reply: &mut Reply,
    seen: &mut Seen,
) -> Result<(), String> {
    let mut stream = if let Some(stream) = socket.take() {
        stream
    } else {
        seen.connects += 1;
        let stream = TcpStream::connect(&options.address).await.map_err(|error| format!("connect: {error}"))?;
        stream.set_nodelay(true).map_err(|error| format!("connect: {error}"))?;
        stream
    };
    reply.reset();
    let mut order = Order::default();
    let start = now_ns();
    seen.requests += 1;
    seen.began_ns = start;
    stream.write_all(message).await.map_err(|error| format!("write: {error}"))?;
    let mut before = 0;
    while !reply.ended() {
        let count = stream.read_buf(reply.buffer()).await.map_err(|error| format!("read: {error}"))?;
        let now = now_ns();
        if count == 0 {
            return Err(format!("closed after {} chunks (status {})", order.next, reply.status));
        }
        reply.advance(|Stamp { sequence, sent_ns }| {
            order.see(sequence);
            if !options.plain {
                if before == 0 {
                    seen.first.push(now - start);
                } else {
                    seen.gaps.push(now - before);
                }
                seen.way.push(now.saturating_sub(sent_ns));
            }
            before = now;
            seen.chunks += 1;
        })?;
    }
    let now = now_ns();
    seen.ended_ns = now;
    seen.total.push(now - start);
    seen.events += reply.events;
    seen.bytes += reply.bytes;
    seen.doubled += order.doubled;
    seen.unordered += order.unordered;
    if reply.status != 200 {
        let words = String::from_utf8_lossy(reply.body()).chars().take(200).collect::<String>();
        return Err(format!("status {}: {words}", reply.status));
    }
    seen.missing += order.missing(options.tokens);
    if reply.failed || !reply.finished || !(reply.done || options.plain) {
        return Err("the answer has no proper end".to_owned());
    }
    if !reply.close {
        *socket = Some(stream);
    }
    Ok(())
}

fn report(mut seen: Seen) -> serde_json::Value {
    let seconds = milliseconds(seen.ended_ns.saturating_sub(seen.began_ns)) / 1000.0;
    let failed: u64 = seen.errors.values().sum();
    let rate = |count: u64| if seconds > 0.0 { real(count) / seconds } else { 0.0 };
    json!({
        "requests": seen.requests,
        "failed": failed,
        "errors": seen.errors,
        "seconds": seconds,
        "requests_per_s": rate(seen.requests.saturating_sub(failed)),
        "chunks": seen.chunks,
        "chunks_per_s": rate(seen.chunks),
        "events": seen.events,
        "bytes": seen.bytes,
        "connects": seen.connects,
        "missing": seen.missing,
        "doubled": seen.doubled,
        "out_of_order": seen.unordered,
        "first_ms": seen.first.summary(),
        "total_ms": seen.total.summary(),
        "way_ms": seen.way.summary(),
        "gap_ms": seen.gaps.summary(),
    })
}
