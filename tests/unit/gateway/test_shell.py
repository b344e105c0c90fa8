"""What surrounds every request: ids, refusals in the right dialect, CORS, and the return of what was taken."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from blazar.config.schema import Server
from blazar.errors import ConfigError, Conflict
from blazar.gateway.context import Context
from blazar.gateway.guard import Guard
from blazar.gateway.shell import Shell


class Leaving:
    """Stands for Granian's awaitable, which takes a callback."""

    def __init__(self, kind: str = "http.disconnect") -> None:
        self.kind = kind
        self.callbacks: list[Any] = []
        self.asked = asyncio.Event()

    def result(self) -> dict[str, str]:
        return {"type": self.kind}

    def add_done_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)
        self.asked.set()

    def leave(self) -> None:
        for callback in self.callbacks:
            callback(self)


class Sent:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def __call__(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {key.decode(): value.decode() for key, value in self.messages[0]["headers"]}

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.messages[1]["body"])


def scope(path: str = "/x", method: str = "POST", **headers: str) -> dict[str, Any]:
    raw = [(b"host", b"localhost")] + [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    return {"type": "http", "path": path, "method": method, "headers": raw}


async def nothing() -> None:
    pass


def shell(app: Any, **options: Any) -> Shell:
    return Shell(app, Guard(Server()), startup=nothing, shutdown=nothing, **options)


async def plain(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


async def test_a_foreign_host_is_refused_in_the_dialect_of_the_path() -> None:
    for path, shape in [("/api/chat", "error"), ("/v1/messages", "request_id"), ("/v1/x", "error")]:
        sent, asked = Sent(), scope(path)
        asked["headers"][0] = (b"host", b"evil.example")
        await shell(plain)(asked, Leaving, sent)  # type: ignore[arg-type]
        assert sent.status == 403
        assert shape in sent.json
        assert "HOST_FORBIDDEN" in str(sent.json)
        assert sent.headers["x-blazar-trace-id"].startswith("plm-")


async def test_trace_ids_count_up() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["blazar"].trace)

    one = shell(app)
    for _ in range(3):
        await one(scope(), Leaving, Sent())  # type: ignore[arg-type]
    prefixes = {trace.rpartition("-")[0] for trace in seen}
    assert len(prefixes) == 1
    assert [trace.rpartition("-")[2] for trace in seen] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("//v1//chat", "/v1/chat"),
        ("/v1/models/", "/v1/models"),
        ("/v1/v1/models", "/v1/models"),
        ("//v1/v1/chat", "/v1/chat"),
        ("/v1/v1", "/v1/v1"),
        ("//", "/"),
        ("/", "/"),
        ("/a/b", "/a/b"),
    ],
)
async def test_paths_are_made_plain(path: str, seen: str) -> None:
    got = ""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal got
        got = scope["path"]

    await shell(app)(scope(path), Leaving, Sent())  # type: ignore[arg-type]
    assert got == seen


async def test_what_was_taken_is_given_back_however_it_ends() -> None:
    back: list[str] = []

    async def fails(scope: Any, receive: Any, send: Any) -> None:
        context: Context = scope["blazar"]
        context.finally_do(lambda: back.append("first"))
        context.finally_do(lambda: back.append("second"))
        raise Conflict("no")

    sent = Sent()
    await shell(fails)(scope(), Leaving, sent)  # type: ignore[arg-type]
    assert back == ["second", "first"]
    assert sent.status == 409


async def test_a_client_that_leaves_cancels_its_request_and_nothing_else() -> None:
    tail, leaving = Leaving("http.request"), Leaving()
    given = iter([tail, leaving])
    back: list[str] = []

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        context: Context = scope["blazar"]
        context.finally_do(lambda: back.append("given back"))
        context.watch_client()
        await asyncio.sleep(30)

    one = shell(waits)
    task = asyncio.create_task(one(scope(), lambda: next(given), Sent()))  # type: ignore[arg-type]
    async with asyncio.timeout(1):
        await tail.asked.wait()  # clients are asked after once it has taken a while
    tail.leave()  # the empty end of the body is no departure
    await asyncio.sleep(0.01)
    assert one.live == 1
    leaving.leave()
    await asyncio.wait_for(task, 1)
    assert back == ["given back"]
    assert one.live == 0
    leaving.leave()  # the connection's own end comes after the answer's; it must hit nobody


async def test_a_fault_of_ours_is_logged_and_named_by_its_trace_only(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("secret detail")

    sent = Sent()
    await shell(broken)(scope("/v1/messages"), Leaving, sent)  # type: ignore[arg-type]
    assert sent.status == 500
    assert "secret detail" not in str(sent.json)
    trace = sent.headers["x-blazar-trace-id"]
    assert trace in sent.json["error"]["message"]
    assert "secret detail" in caplog.text
    assert trace in caplog.text


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:3000", True),
        ("https://evil.example", False),
        ("http://127.0.0.1", True),
        ("null", False),
        ("chrome-extension://abcdef", True),
        ("http://localhost.evil.example", False),
    ],
)
async def test_pages_of_this_machine_may_call(origin: str, allowed: bool) -> None:
    sent = Sent()
    await shell(plain)(scope(origin=origin), Leaving, sent)  # type: ignore[arg-type]
    assert (sent.headers.get("access-control-allow-origin") == origin) is allowed
    assert sent.status == (200 if allowed else 403), "and nothing is done for a page that may not"


async def test_pages_that_the_owner_named_may_call() -> None:
    for origins in [("https://app.example",), ("*",)]:
        sent = Sent()
        await shell(plain, cors_origins=origins)(scope(origin="https://app.example"), Leaving, sent)  # type: ignore[arg-type]
        assert sent.headers["access-control-allow-origin"] == "https://app.example"


async def test_preflights_are_always_answered() -> None:
    sent = Sent()
    await shell(plain)(scope("/v1/chat/completions", "OPTIONS", origin="http://localhost"), Leaving, sent)  # type: ignore[arg-type]
    assert sent.status == 204
    assert sent.headers["access-control-allow-origin"] == "http://localhost"
    assert "POST" in sent.headers["access-control-allow-methods"]


async def test_a_node_that_cannot_start_says_why() -> None:
    async def fails() -> None:
        raise ConfigError("the database is newer than this Blazar")

    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    await Shell(plain, Guard(Server()), startup=fails, shutdown=nothing)({"type": "lifespan"}, receive, send)
    assert said == [{"type": "lifespan.startup.failed", "message": "the database is newer than this Blazar"}]
