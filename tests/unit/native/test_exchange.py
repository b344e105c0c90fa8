"""The compiled core as Python sees it: bytes in, bytes out, errors with their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blazar import _native

GOLDEN = Path(__file__).parents[2] / "golden" / "engine" / "llama"
CHAT = {"model": "x", "messages": [{"role": "user", "content": "hi"}], "stream": True}


def exchange(body: dict[str, object], route: str = "openai.chat") -> _native.Exchange:
    inbound = _native.parse(route, json.dumps(body).encode())
    return _native.Exchange(
        inbound,
        family="llama",
        alias="engine-name",
        host="127.0.0.1:1",
        secret="s3",
        id="0123456789abcdef0123456789abcdef",
        created_ns=1,
        started_ns=2,
        load_ns=0,
    )


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_recorded_answer_comes_through_whatever_the_buffer_is(kind: type) -> None:
    one = exchange(CHAT)
    assert one.phase == _native.PHASE_HEAD
    assert b"authorization: Bearer s3\r\n" in one.request
    assert json.loads(bytes(one.request).split(b"\r\n\r\n", 1)[1])["model"] == "engine-name"
    answer = (GOLDEN / "chat.http").read_bytes()
    out = b"".join(one.feed(kind(answer[at : at + 100]), 7) for at in range(0, len(answer), 100))
    assert one.phase == _native.PHASE_DONE
    assert out.endswith(b"data: [DONE]\n\n")
    assert one.fault is None
    assert one.usage is not None
    assert one.usage[0] > 0
    assert one.first_ns == 7
    assert one.finish in {"stop", "length"}


def test_nothing_to_give_costs_no_object() -> None:
    one = exchange(CHAT)
    assert one.feed(b"HTTP/1.1 200 OK\r\n", 1) is one.feed(b"", 1)


def test_one_parsed_request_serves_several_tries() -> None:
    inbound = _native.parse("ollama.generate", b'{"model": "m", "prompt": "hi", "keep_alive": -1}')
    assert (inbound.model, inbound.stream, inbound.keep_alive_s) == ("m", True, -1.0)
    path, body = _native.count_request(inbound, "llama", "a")
    assert path.startswith("/")
    assert b"hi" in body


def test_a_callers_failure_ends_it_and_unknown_names_are_refused() -> None:
    one = exchange(CHAT)
    assert one.fail("timeout", "GATEWAY_TIMEOUT", "Too slow.", 3) == b""
    assert one.phase == _native.PHASE_FAILED
    assert one.fault == ("timeout", "Too slow.", None, None)
    with pytest.raises(ValueError, match="no kind of fault"):
        exchange(CHAT).fail("nonsense", "", "", 3)
    with pytest.raises(ValueError, match="no route"):
        _native.parse("nonsense", b"{}")


def test_a_wrong_body_says_where() -> None:
    with pytest.raises(_native.BadInput) as caught:
        _native.parse("openai.chat", b'{"model": "m", "messages": 5}')
    message, path = caught.value.args
    assert message
    assert path == "messages"


def test_a_call_keeps_an_answer_up_to_its_limit() -> None:
    call = _native.Call("GET", "/health", None, host="h", secret="", limit=10)
    assert call.request.startswith(b"GET /health HTTP/1.1\r\n")
    assert call.feed(b"HTTP/1.1 503 x\r\ncontent-length: 2\r\n\r\nno", 1) == b""
    assert (call.phase, call.status, call.body, call.reusable) == (_native.PHASE_DONE, 503, b"no", True)
    large = _native.Call("GET", "/health", None, host="h", secret="", limit=1)
    large.feed(b"HTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\nno", 1)
    assert large.phase == _native.PHASE_FAILED
    with pytest.raises(ValueError, match="path"):
        _native.Call("GET", "/a b", None, host="h", secret="", limit=1)
