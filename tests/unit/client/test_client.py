from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from blazar import errors
from blazar.client import Client
from blazar.client.transport import Address
from blazar.client.types import ChatRequest, Message
from tests.support.daemon import Daemon, daemon


@pytest.fixture
def server() -> Iterator[Daemon]:
    with daemon() as running:
        yield running


def ask(model: str, text: str = "Grüße, 世界 🙂") -> ChatRequest:
    return ChatRequest(model, [Message("user", text)])


def test_a_streamed_answer_arrives_whole_and_ends_with_its_figures(server: Daemon) -> None:
    with Client(server.address).chat(ask("echo")) as stream:
        parts = list(stream)
    assert "".join(part.message.content for part in parts) == "You said: Grüße, 世界 🙂"
    assert [part.done for part in parts] == [False, False, True]
    assert parts[-1].eval_count == 50
    assert parts[-1].done_reason == "stop"


def test_reasoning_and_content_are_told_apart(server: Daemon) -> None:
    with Client(server.address).chat(ask("thinker", "42")) as stream:
        parts = list(stream)
    assert "".join(part.message.thinking for part in parts) == "Let me see. It is easy."
    assert "".join(part.message.content for part in parts) == "The answer: 42"


def test_the_body_says_what_was_asked_and_no_more(server: Daemon) -> None:
    request = ChatRequest("echo", [Message("user", "hi")], options={"seed": 1}, think=False, keep_alive=0)
    with Client(server.address, key="s3cret").chat(request) as stream:
        list(stream)
    assert server.bodies == [
        (
            "/api/chat",
            {
                "model": "echo",
                "messages": [{"role": "user", "content": "hi"}],
                "options": {"seed": 1},
                "think": False,
                "keep_alive": 0,
            },
        )
    ]
    assert server.headers[0]["authorization"] == "Bearer s3cret"


def test_leaving_a_stream_early_closes_its_connection(server: Daemon) -> None:
    with Client(server.address).chat(ask("slow")) as stream:
        next(stream)
        assert not server.left.is_set()
    assert server.left.wait(5)
    with pytest.raises(StopIteration):
        next(stream)


def test_an_error_before_the_stream_keeps_its_class_sentence_and_wait(server: Daemon) -> None:
    client = Client(server.address)
    with pytest.raises(errors.ModelNotFound) as missing:
        client.chat(ask("nobody"))
    assert missing.value.message == "model 'nobody' not found."
    with pytest.raises(errors.AllSlotsBusy) as busy:
        client.chat(ask("busy"))
    assert busy.value.retry_after == 7


def test_an_error_in_the_stream_is_raised_after_what_came_before(server: Daemon) -> None:
    with Client(server.address).chat(ask("crash")) as stream:
        assert next(stream).message.content == "Once upon "
        with pytest.raises(errors.EngineCrashed, match="was killed by SIGKILL"):
            next(stream)


def test_a_stream_that_just_ends_is_an_error_and_no_answer(server: Daemon) -> None:
    with (
        pytest.raises(errors.BadGateway, match="broke off in the middle"),
        Client(server.address).chat(ask("cut")) as stream,
    ):
        list(stream)


def test_nobody_there_is_told_with_the_cure() -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(errors.DaemonUnreachable, match=f"{address}. Start one: blazar serve"):
        Client(address).ps()


def test_tables_come_typed(server: Daemon) -> None:
    client = Client(server.address)
    assert client.health().version == "9.9.9"
    echo, slow = client.ps()
    assert (echo.name, echo.size, echo.blazar.slots, echo.blazar.pid) == ("echo", 250_000_000, 4, 4242)
    assert slow.expires_at == "2200-01-01T00:00:00Z"
    assert client.tags()[0].details.quantization_level == "Q4_1"
    assert client.show("echo")["model_info"]["llama.context_length"] == 2048
    client.unload("echo")
    assert server.bodies[-1] == ("/api/generate", {"model": "echo", "keep_alive": 0, "stream": False})


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found",
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300,
        b"",
    ],
)
def test_what_is_no_daemon_is_told_apart(answer: bytes) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(errors.BadGateway):
            Client(f"127.0.0.1:{listener.getsockname()[1]}").health()
        thread.join()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:11435", "http://127.0.0.1:11435"),
        ("http://[::1]:80/", "http://[::1]:80"),
        ("http://box.local:9", "http://box.local:9"),
    ],
)
def test_addresses(text: str, url: str) -> None:
    assert Address(text).url == url


@pytest.mark.parametrize("text", ["https://box:1", "box", "http://box", "box:port", "box:70000", ":11435"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(errors.ConfigError, match="is no address of a daemon"):
        Address(text)
