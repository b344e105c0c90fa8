"""Bodies that nobody should send, to every route: a clear refusal, or an answer; never a fault of ours."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.test_keys import every_route
from tests.support.server import Server, serving

SEED = int(os.environ.get("BLAZAR_HOSTILE_SEED", "1"))
EACH = int(os.environ.get("BLAZAR_HOSTILE_EACH", "40"))
MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
SHAPE = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {}}}}
OPTIONS = {"num_predict": 1, "temperature": 0, "stop": ["x"], "num_ctx": 256, "seed": 1}
SAMPLING = {"temperature": 0.5, "top_p": 0.5, "seed": 1, "stop": ["x"], "logit_bias": {"1": 1}, "n": 1}
GOOD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "r"}],
        "tools": [TOOL], "tool_choice": "auto", "max_tokens": 1, "stream_options": {"include_usage": True},
        "logprobs": False, "response_format": {"type": "text"}, **SAMPLING,
    },
    "/v1/completions": {"prompt": "hi", "max_tokens": 1, "echo": False, "suffix": None, "logprobs": 1, **SAMPLING},
    "/v1/responses": {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}], "instructions": "s",
        "max_output_tokens": 16, "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "text": {"format": {"type": "text"}}, "store": False, "metadata": {"a": "b"}, "reasoning": {"effort": "low"},
    },
    "/v1/embeddings": {"input": ["a", "b"], "dimensions": 4, "encoding_format": "float"},
    "/v1/rerank": {"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1},
    "/v1/messages": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "x"}}]}],
        "system": [{"type": "text", "text": "s"}], "max_tokens": 1, "stop_sequences": ["x"], "metadata": {},
        "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto"},
    },
    "/v1/messages/count_tokens": {"messages": MESSAGES[1:], "system": "s"},
    "/api/chat": {
        "messages": [{**MESSAGES[1], "images": []}], "options": OPTIONS, "keep_alive": "5m", "format": "",
        "think": False, "tools": [TOOL],
    },
    "/api/generate": {
        "prompt": "hi", "system": "s", "template": "{{ .Prompt }}", "context": [1], "raw": False, "options": OPTIONS,
        "images": [], "suffix": "",
    },
    "/api/embed": {"input": ["a"], "truncate": True, "dimensions": 2, "options": {}, "keep_alive": 1},
    "/api/show": {"verbose": False},
    "/api/copy": {"source": "tiny", "destination": "other"},
    "/api/create": {"from": "tiny", "system": "s", "parameters": {"top_k": 1}, "messages": [], "stream": False},
    "/api/warm": {"wait": True},
    "/api/evict": {"wait": True},
    "/api/session": {"action": "save", "name": "x", "session": "y"},
    "/tokenize": {"content": "hi", "add_special": True},
    "/detokenize": {"tokens": [1, 2]},
    "/apply-template": {"messages": MESSAGES},
    "/infill": {"input_prefix": "a", "input_suffix": "b", "n_predict": 1},
}  # fmt: skip
WORSE: list[Any] = [
    None, True, 0, -1, 3, 0.5, 1e308, 10**40, -(2**63), "", "x", "\x00", "x" * 70_000, [], {}, [[]], [None], [{}],
    {"x": {}}, ["x", 1], {"type": 1}, {"type": "x"}, {"role": "user"},
    [{"type": "image_url", "image_url": {"url": "x"}}],
]  # fmt: skip
RAW = [
    b"", b"x", b"null", b"[]", b"{", b'"x"', b"1", b"\xff\xfe",
    b'{"model":"tiny","messages":[{"role":"user","content":"\\ud800"}]}',
    b"[" * 100_000, b'{"a":' * 100_000, b'{"model":1e400}', b'{"model":"tiny"', b'{"model":"\xff"}', b"{}" * 2,
    b'{"model":"tiny","model":"other"}', b" " * 100_000, b'{"model":"../../etc/passwd"}',
    b'{"model":"' + b"m" * 70_000 + b'"}',
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("hostile")
    models = {"tiny": tiny}
    with serving(home, models, BLAZAR_ENGINE_CONTEXT="512", BLAZAR_ADMISSION_WAIT_S="20") as running:
        yield running


def judge(answer: httpx.Response, asked: object) -> None:
    """No fault of ours, and an error that a program can read."""
    said = f"{str(asked)[:600]} -> {answer.status_code} {answer.text[:600]}"
    # Of a name that is not here, a registry is asked, and there is none.
    away = answer.status_code == 502 and '"blazar_code":"DOWNLOAD_FAILED"' in answer.text
    assert answer.status_code not in {500, 502, 504} or away, said
    assert "Traceback" not in answer.text, said
    if answer.status_code < 400 or not answer.content:
        return
    body = answer.json()
    assert answer.headers.get("x-blazar-trace-id") or body.get("blazar_code") or "error" in body, said
    error = body["error"]
    words = error if isinstance(error, str) else error["message"]
    assert words, said


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be put in place of something."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def changed(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of ``body`` with ``value`` at ``path``."""
    fresh = copy.deepcopy(body)
    at = fresh
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return fresh


@pytest.mark.parametrize("path", GOOD)
def test_a_good_request_with_one_thing_wrong(server: Server, path: str) -> None:
    chance = random.Random(f"{SEED}{path}")
    good = {"model": "tiny", "stream": False, **GOOD[path]}
    every = [(place, worse) for place in places(good) for worse in WORSE]
    with httpx.Client(base_url=server.url, timeout=60) as client:
        judge(client.post(path, json=good), good)
        for place, worse in chance.sample(every, min(EACH, len(every))):
            asked = changed(good, place, worse)
            judge(client.post(path, content=json.dumps(asked).encode()), (path, place, str(worse)[:60]))
        assert client.get("/health").status_code == 200
    assert "Traceback" not in server.log.read_text()


def test_bodies_that_are_none_to_every_route(server: Server, tmp_path: Path) -> None:
    filled = {"{id}": "x", "{name:path}": "tiny", "{digest}": "sha256:" + "0" * 64, "{trace}": "x"}
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for method, template in every_route(tmp_path):
            path = template
            for part, value in filled.items():
                path = path.replace(part, value)
            for body in RAW:
                for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain"):
                    if kind != "application/json" and len(body) > 100:
                        continue
                    judge(
                        client.request(method, path, content=body, headers={"content-type": kind}),
                        (method, path, kind, body[:60]),
                    )
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize(
    "query",
    ["model=%00", "model=%ff", "limit=x", "limit=-1", "after=%F0%9F", "purpose[]=x", "order=sideways",
     "x=" + "y" * 8000, "state=%7B", "model=a&model=b"],
)  # fmt: skip
def test_queries_that_are_none(server: Server, query: str, tmp_path: Path) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for method, template in every_route(tmp_path):
            if method == "GET" and "{" not in template:
                judge(client.get(f"{template}?{query}"), (template, query))
    assert "Traceback" not in server.log.read_text()
