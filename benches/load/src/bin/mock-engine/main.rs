//! A stand-in for llama-server: its routes, its shapes, its log lines, its keep-alive rules, and no model.
//!
//! Text comes at a pace that the request asks for in the words of its prompt, so that the wish survives any gateway:
//! `mock(rate=50,delay_ms=20,bytes=32,tokens=100,burst=1)`. A rate of 0 means back to back; `burst` pieces go out in one
//! write. Without `tokens` the request's own limit counts, else 16. Unknown command line options are ignored.

mod answer;
mod args;
mod request;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use answer::Answer;
use args::Args;
use request::Request;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::{sleep_until, timeout};

const KEEP_ALIVE: Duration = Duration::from_secs(5);
const KEEP_ALIVE_REQUESTS: usize = 100;

/// What all connections share.
struct Engine {
    args: Args,
    secret: Option<String>,
    slots: Semaphore,
    busy: AtomicUsize,
}

/// One slot in use; given back when dropped.
struct Working<'a>(&'a Engine, #[allow(dead_code)] tokio::sync::SemaphorePermit<'a>);

impl Engine {
    async fn slot(&self) -> Option<Working<'_>> {
        let permit = self.slots.acquire().await.ok()?;
        self.busy.fetch_add(1, Ordering::Relaxed);
        Some(Working(self, permit))
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

fn main() {
    let args = match args::parse(std::env::args().skip(1)) {
        args::Command::Serve(args) => args,
        args::Command::Print(code) => std::process::exit(code),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let code = match runtime {
        Ok(runtime) => runtime.block_on(serve(args)),
        Err(error) => {
            eprintln!("main: exiting due to HTTP server error: {error}");
            1
        }
    };
    std::process::exit(code);
}

async fn serve(args: Args) -> i32 {
    let engine = Arc::new(Engine {
        secret: std::env::var("LLAMA_API_KEY").ok().filter(|key| !key.is_empty()),
        slots: Semaphore::new(args.slots),
        busy: AtomicUsize::new(0),
        args,
    });
    let listening = listen(engine.clone());
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return 1;
    };
    tokio::select! {
        result = listening => match result {
            Ok(()) => 0,
            Err(error) => {
                let place = format!("hostname: {}, port: {}", engine.args.host, engine.args.port);
                engine.args.log(&format!("couldn't bind HTTP server socket, {place}: {error}"));
                engine.args.log("main: exiting due to HTTP server error");
                1
            }
        },
        _ = terminate.recv() => 0,
        _ = interrupt.recv() => 0,
    }
}

async fn listen(engine: Arc<Engine>) -> std::io::Result<()> {
    if std::path::Path::new(&engine.args.host).extension().is_some_and(|ending| ending == "sock") {
        let listener = UnixListener::bind(&engine.args.host)?;
        ready(&engine, &format!("unix://{}", engine.args.host));
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(connection(engine.clone(), stream));
        }
    }
    let listener = TcpListener::bind((engine.args.host.as_str(), engine.args.port)).await?;
    let port = listener.local_addr()?.port();
    ready(&engine, &format!("http://{}:{port}", engine.args.host));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(connection(engine.clone(), stream));
    }
}

fn ready(engine: &Engine, address: &str) {
    engine.args.log(&format!("srv  load_model: loading model '{}'", engine.args.model));
    engine.args.log("main: model loaded");
    engine.args.log(&format!("main: server is listening on {address}"));
    engine.args.log("main: starting the main loop...");
}

/// Serve one connection until either side has had enough.
async fn connection<S: AsyncRead + AsyncWrite + Unpin>(engine: Arc<Engine>, mut stream: S) {
    let mut buffer = Vec::with_capacity(16 * 1024);
    for served in 1..=KEEP_ALIVE_REQUESTS {
        let Some(request) = next_request(&mut stream, &mut buffer).await else { return };
        let last = request.close || served == KEEP_ALIVE_REQUESTS;
        if respond(&engine, &request, last, &mut stream, &mut buffer).await.is_none() || last {
            return;
        }
    }
}

/// The next whole request; none when the client is gone, silent for too long, or speaks nonsense.
async fn next_request<S: AsyncRead + Unpin>(stream: &mut S, buffer: &mut Vec<u8>) -> Option<Request> {
    loop {
        if let Some(request) = Request::take(buffer).ok()? {
            return Some(request);
        }
        if timeout(KEEP_ALIVE, stream.read_buf(buffer)).await.ok()?.ok()? == 0 {
            return None;
        }
    }
}

/// Answer one request; none when the connection is of no more use.
async fn respond<S: AsyncRead + AsyncWrite + Unpin>(
    engine: &Engine,
    request: &Request,
    last: bool,
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Option<()> {
    let path = request.path.split('?').next().unwrap_or("");
    let open = matches!(path, "/health" | "/v1/health");
    let (status, body) = match (&engine.secret, &request.key) {
        (Some(secret), key) if !open && key.as_deref() != Some(secret) => (401, answer::unauthorized()),
        _ if answer::generates(path) && request.method == "POST" => {
            let Some(answer) = Answer::of(path, &request.body, &engine.args) else {
                return send(stream, 400, &answer::bad_request(), last).await;
            };
            let _working = engine.slot().await?;
            return generate(&answer, last, stream, buffer).await;
        }
        _ => match answer::facts(path, &engine.args, engine.busy.load(Ordering::Relaxed), &request.body) {
            Some(body) => (200, body),
            None => (404, answer::not_found()),
        },
    };
    send(stream, status, &body, last).await
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, status: u16, body: &str, last: bool) -> Option<()> {
    let mut out = Vec::with_capacity(body.len() + 256);
    answer::head(&mut out, status, Some(body.len()), last);
    out.extend_from_slice(body.as_bytes());
    stream.write_all(&out).await.ok()
}

/// Write an answer at its pace. Between two pieces the socket is watched, as the real one does: a client that left frees
/// the slot at once.
async fn generate<S: AsyncRead + AsyncWrite + Unpin>(
    answer: &Answer,
    last: bool,
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Option<()> {
    let start = tokio::time::Instant::now();
    if !answer.stream {
        pause(start + answer.due(answer.tokens), stream, buffer).await?;
        return send(stream, 200, &answer.whole(), last).await;
    }
    let mut out = Vec::with_capacity(4096);
    for piece in 0..answer.tokens {
        if answer.paced() || piece == 0 {
            pause(start + answer.due(piece), stream, buffer).await?;
        }
        if piece == 0 {
            answer::head(&mut out, 200, None, last);
            answer.opening(&mut out);
        }
        answer.piece(piece, &mut out);
        if (piece + 1) % answer.burst == 0 {
            stream.write_all(&out).await.ok()?;
            out.clear();
        }
    }
    answer.closing(&mut out);
    stream.write_all(&out).await.ok()
}

async fn pause<S: AsyncRead + Unpin>(until: tokio::time::Instant, stream: &mut S, buffer: &mut Vec<u8>) -> Option<()> {
    if until <= tokio::time::Instant::now() {
        return Some(());
    }
    tokio::select! {
        () = sleep_until(until) => Some(()),
        read = stream.read_buf(buffer), if buffer.is_empty() => match read {
            Ok(count) if count > 0 => {
                sleep_until(until).await;
                Some(())
            }
            _ => None,
        },
    }
}
