"""What users of neighbouring gateways suffer, by the numbers of the project's list, shown not to happen here."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support import patient
from tests.support.server import Server, serving

CONTEXT = 512
HI: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("pains")
    with serving(home, {"tiny": tiny, "other": tiny}, BLAZAR_ENGINE_CONTEXT=str(CONTEXT)) as running:
        yield running


def post(server: Server, route: str, **body: Any) -> httpx.Response:
    return patient.post(server.url + route, json=body, timeout=120)


def pid(server: Server, model: str = "tiny") -> int:
    return next(int(row["blazar"]["pid"]) for row in server.ps() if row["name"] == model)  # type: ignore[index]


LONG = "needle " + "x" * (CONTEXT + 200)
TOO_LONG: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": LONG}]},
    "/v1/completions": {"prompt": LONG},
    "/v1/responses": {"input": LONG},
    "/v1/messages": {"max_tokens": 5, "messages": [{"role": "user", "content": LONG}]},
    "/api/chat": {"messages": [{"role": "user", "content": LONG}]},
    "/api/generate": {"prompt": LONG},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", TOO_LONG)
def test_15_16_18_a_prompt_that_does_not_fit_is_refused_with_both_numbers(
    server: Server, route: str, stream: bool
) -> None:
    post(server, "/api/generate", model="tiny")
    before = pid(server)
    answer = post(server, route, model="tiny", stream=stream, **TOO_LONG[route])
    assert answer.status_code == 400, answer.text
    assert "PROMPT_TOO_LONG" in answer.text
    assert f"the context holds {CONTEXT}" in answer.text
    assert (
        post(server, "/api/chat", model="tiny", messages=HI, options={"num_predict": 1}, stream=False).status_code
        == 200
    )
    assert pid(server) == before, "the child lives on"


def test_18_a_tool_result_that_does_not_fit_is_refused_too(server: Server) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        *HI,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": LONG},
    ]
    answer = post(server, "/v1/chat/completions", model="tiny", messages=messages)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_19_23_a_prompt_counts_the_same_when_it_was_cached(server: Server) -> None:
    messages = [{"role": "user", "content": "The same words. " * 15}]
    first, second = (
        post(server, "/v1/chat/completions", model="tiny", messages=messages, max_tokens=1).json()["usage"]
        for _ in range(2)
    )
    assert first["prompt_tokens"] == second["prompt_tokens"]
    assert second["prompt_tokens_details"]["cached_tokens"] > 100
    again = post(server, "/v1/messages", model="tiny", messages=messages, max_tokens=1).json()["usage"]
    assert again["cache_read_input_tokens"] > 100
    assert again["cache_read_input_tokens"] + again["input_tokens"] == first["prompt_tokens"]


def test_21_usage_is_on_the_wire_only_where_it_was_asked_for(server: Server) -> None:
    asked = {"model": "tiny", "messages": HI, "max_tokens": 2, "stream": True}
    assert "usage" not in post(server, "/v1/chat/completions", **asked).text
    wanted = post(server, "/v1/chat/completions", **asked, stream_options={"include_usage": True}).text
    assert '"completion_tokens":2' in wanted


@pytest.mark.parametrize("pattern", ["^hello there indeed\\!$", "hello(?=x)", "^\\d+$"])
def test_24_a_pattern_that_no_grammar_can_hold_is_not_passed_over(server: Server, pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]}
    shape = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}}
    answer = post(server, "/v1/chat/completions", model="tiny", messages=HI, response_format=shape, max_tokens=40)
    assert answer.status_code == 400
    assert "pattern (at properties.a.pattern)" in answer.json()["error"]["message"]


def test_25_nested_optional_models_hold_twenty_times(server: Server) -> None:
    schema = {
        "type": "object",
        "properties": {"pet": {"anyOf": [{"$ref": "#/$defs/Pet"}, {"type": "null"}]}, "kind": {"const": "x"}},
        "required": ["pet", "kind"],
        "additionalProperties": False,
        "$defs": {
            "Pet": {
                "type": "object",
                "properties": {"ok": {"type": "boolean"}, "of": {"enum": ["cat", "dog"]}},
                "required": ["ok", "of"],
                "additionalProperties": False,
            }
        },
    }
    shape = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}}
    for seed in range(20):
        answer = post(
            server, "/v1/chat/completions", model="tiny", messages=HI, response_format=shape, seed=seed, max_tokens=300
        )
        assert answer.headers["x-blazar-structured-output"] == "valid", answer.text
        assert json.loads(answer.json()["choices"][0]["message"]["content"])["kind"] == "x"


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/chat/completions", {"messages": HI, "max_tokens": 1}),
        ("/v1/completions", {"prompt": "x", "max_tokens": 1}),
        ("/v1/responses", {"input": "x", "max_output_tokens": 1}),
        ("/v1/messages", {"messages": HI, "max_tokens": 1}),
        ("/v1/embeddings", {"input": "x"}),
        ("/api/chat", {"messages": HI, "options": {"num_predict": 1}}),
        ("/api/embed", {"input": "x"}),
    ],
)
def test_29_keep_alive_means_the_same_everywhere(server: Server, route: str, body: dict[str, Any]) -> None:
    kept = 77 if route == "/v1/embeddings" else "77s"
    assert post(server, route, model="tiny", keep_alive=kept, **body).status_code == 200
    row = next(row for row in server.ps() if row["name"] == "tiny")
    left = datetime.fromisoformat(str(row["expires_at"])).timestamp() - time.time()
    assert 74 < left <= 77.5


def test_30_a_client_that_asks_for_no_context_shares_the_large_one(server: Server) -> None:
    def ask(**options: Any) -> None:
        answer = post(
            server, "/api/chat", model="other", messages=HI, options={"num_predict": 1} | options, stream=False
        )
        assert answer.status_code == 200

    ask(num_ctx=1024)
    first = pid(server, "other")
    for _ in range(5):
        ask()
        ask(num_ctx=1024)
    assert pid(server, "other") == first


def test_11_reasoning_in_history_reaches_the_engine_under_either_name(server: Server) -> None:
    counts = []
    for key in ("reasoning_content", "reasoning", "unknown"):
        messages = [*HI, {"role": "assistant", "content": "a", key: "because"}, *HI]
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
            answer: Any = client.chat.completions.create(model="tiny", messages=messages, max_tokens=1)
        counts.append(answer.usage.prompt_tokens)
    assert counts[0] == counts[1]
