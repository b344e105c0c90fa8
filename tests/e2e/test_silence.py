"""A stream that has nothing to say yet is open all the same, and says what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

from tests.support import patient
from tests.support.server import Server, serving

MESSAGES: Any = [{"role": "user", "content": "Hi"}]
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 3},
    "/v1/completions": {"prompt": "Hi", "max_tokens": 3},
    "/v1/responses": {"input": "Hi", "max_output_tokens": 3},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 3},
    "/api/chat": {"messages": MESSAGES, "options": {"num_predict": 3}},
    "/api/generate": {"prompt": "Hi", "options": {"num_predict": 3}},
}
ENDS = {
    "/v1/chat/completions": b"data: [DONE]",
    "/v1/completions": b"data: [DONE]",
    "/v1/responses": b"response.incomplete",
    "/v1/messages": b"message_stop",
    "/api/chat": b'"done":true',
    "/api/generate": b'"done":true',
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny_slow: Path) -> Iterator[Server]:
    settings = {
        "BLAZAR_ENGINE_SLOTS": "1",
        "BLAZAR_RELAY_PING_S": "0.2",
        "BLAZAR_SERVER_CORS_ORIGINS": "https://page.example",
    }
    with serving(tmp_path_factory.mktemp("silence"), {"slow": tiny_slow}, **settings) as running:
        yield running


@contextmanager
def occupied(server: Server) -> Iterator[None]:
    """Somebody else has the only slot."""
    asked = {"model": "slow", "messages": MESSAGES, "stream": True, "temperature": 0}
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=asked, timeout=120) as answer:
        lines = answer.iter_lines()
        while not next(lines).startswith("data: "):
            pass
        yield


def is_sign_of_life(piece: bytes) -> bool:
    return (piece.startswith(b": ") and piece.endswith(b"\n\n")) or (
        b'"done":false' in piece and (b'"content":""' in piece or b'"response":""' in piece)
    )


@pytest.mark.parametrize("route", ROUTES)
def test_a_stream_that_waits_is_open_and_then_answers(server: Server, route: str) -> None:
    asked = {"model": "slow", "stream": True, **ROUTES[route]}
    headers = {"origin": "https://page.example"}
    with httpx.Client(timeout=120) as client:
        with occupied(server):
            answer = client.send(
                client.build_request("POST", server.url + route, json=asked, headers=headers), stream=True
            )
            pieces = answer.iter_raw()
            assert answer.status_code == 200
            assert answer.headers["x-blazar-trace-id"].startswith("plm-")
            assert answer.headers["access-control-allow-origin"] == "https://page.example"
            assert answer.headers["x-blazar-queue-position"] == "0"
            first = next(pieces)
            assert is_sign_of_life(first)
            assert (b"queued, 0 before this one, about " in first) != route.startswith("/api/")
            assert is_sign_of_life(next(pieces)), "and again, as long as it waits"
        assert ENDS[route] in b"".join(pieces)


@pytest.mark.parametrize("route", ROUTES)
def test_what_fails_after_that_is_the_dialects_own_error(server: Server, route: str) -> None:
    asked = {"model": "slow", "stream": True, **ROUTES[route]}
    with occupied(server):
        answer = patient.post(server.url + route, json=asked, headers={"x-blazar-deadline-ms": "600"}, timeout=120)
    assert answer.status_code == 200
    last = answer.text.strip().split("\n\n" if route.startswith("/v1") else "\n")[-1]
    assert "ALL_SLOTS_BUSY" in last
    assert '"error"' in last
    assert ("[DONE]" in answer.text) is False


def test_what_fails_before_that_has_its_status(server: Server) -> None:
    asked = {"model": "slow", "stream": True, **ROUTES["/v1/messages"]}
    strict = {"x-blazar-deadline-ms": "50"}
    with occupied(server):
        answer = patient.post(f"{server.url}/v1/messages", json=asked, headers=strict, timeout=120)
    assert answer.status_code == 503
    assert answer.json()["error"]["type"] == "overloaded_error"


def test_official_clients_read_on_over_it(server: Server) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:
        with occupied(server):
            chunks = client.chat.completions.create(model="slow", messages=MESSAGES, max_tokens=3, stream=True)
            events = client.responses.create(model="slow", input="Hi", max_output_tokens=3, stream=True)
        assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "length"
        assert [event.type for event in events][-1] == "response.incomplete"
    with anthropic.Anthropic(base_url=server.url, api_key="x", max_retries=0) as claude:
        with occupied(server):
            stream = claude.messages.create(model="slow", messages=MESSAGES, max_tokens=3, stream=True)
        assert [event.type for event in stream][-1] == "message_stop"
    told = ollama.Client(host=server.url)
    with occupied(server):
        parts = told.chat("slow", messages=MESSAGES, stream=True, options={"num_predict": 3})
        first = next(iter(parts))
    assert first.message.content == ""
    assert list(parts)[-1].done
    told._client.close()


def test_a_client_that_leaves_while_it_waits_gives_its_place_up(server: Server) -> None:
    asked = {"model": "slow", "stream": True, **ROUTES["/v1/chat/completions"]}
    with occupied(server):
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=asked, timeout=120) as answer:
            pieces = answer.iter_raw()
            next(pieces)
            (row,) = server.ps()
            assert row["blazar"]["queued"] == 1  # type: ignore[index]
        for _ in range(200):
            (row,) = server.ps()
            if not row["blazar"]["queued"]:  # type: ignore[index]
                return
    raise AssertionError(row)
