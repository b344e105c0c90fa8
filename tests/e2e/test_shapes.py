"""Answers that must have a shape, several prompts at once, and reasoning under both of its names, on a real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.support.server import Server

MESSAGES: Any = [{"role": "user", "content": "Hi"}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"enum": ["red"]}, "n": {"$ref": "#/$defs/small"}},
    "required": ["colour", "n"],
    "additionalProperties": False,
    "$defs": {"small": {"anyOf": [{"const": 1}, {"type": "null"}]}},
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA, "strict": True}}


def ask(server: Server, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    asked = {"model": "tiny", "messages": MESSAGES, "temperature": 0, **more}
    return httpx.post(f"{server.url}/v1/chat/completions", json=asked, headers=headers, timeout=30)


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as one:
        yield one


def test_the_verdict_is_a_header(server: Server) -> None:
    answer = ask(server, response_format=FORMAT, max_tokens=200)
    value = json.loads(answer.json()["choices"][0]["message"]["content"])
    assert value["colour"] == "red"
    assert value["n"] in {1, None}
    assert answer.headers["x-blazar-structured-output"] == "valid"
    assert "x-blazar-structured-output" not in ask(server, max_tokens=2).headers


def test_an_answer_that_the_limit_cut_is_not_valid_and_enforced_it_is_an_error(server: Server) -> None:
    cut = ask(server, response_format=FORMAT, max_tokens=3)
    assert cut.status_code == 200
    assert cut.headers["x-blazar-structured-output"].startswith("invalid; it is not JSON")
    enforced = ask(server, {"x-blazar-enforce": "true"}, response_format=FORMAT, max_tokens=3)
    assert enforced.status_code == 422
    assert enforced.json()["error"]["blazar_code"] == "UNPROCESSABLE"
    streamed = ask(server, {"x-blazar-enforce": "true"}, response_format=FORMAT, max_tokens=3, stream=True)
    assert streamed.status_code == 400
    assert streamed.json()["error"]["param"] == "stream"


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/api/chat", {"messages": MESSAGES, "format": SCHEMA, "stream": False}),
        ("/api/generate", {"prompt": "Hi", "format": SCHEMA, "stream": False}),
        ("/v1/responses", {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}}}),
    ],
)
def test_every_dialect_gets_the_verdict(server: Server, route: str, body: dict[str, Any]) -> None:
    answer = httpx.post(server.url + route, json={"model": "tiny", **body}, timeout=30)
    assert answer.headers["x-blazar-structured-output"] == "valid"


@pytest.mark.parametrize("stream", [False, True])
def test_several_prompts_have_their_own_answers_in_order(client: openai.OpenAI, stream: bool) -> None:
    prompts = ["one", "two two", [104, 105]]
    alone = [
        client.completions.create(model="tiny", prompt=prompt, max_tokens=4, temperature=0)
        for prompt in ("one", "two two", [104, 105])
    ]
    asked: Any = {"model": "tiny", "prompt": prompts, "max_tokens": 4, "temperature": 0, "n": 2}
    texts = [""] * 6
    if stream:
        asked["stream_options"] = {"include_usage": True}
        chunks = list(client.completions.create(**asked, stream=True))
        for chunk in chunks:
            for choice in chunk.choices:
                texts[choice.index] += choice.text
        usage = chunks[-1].usage
    else:
        answer = client.completions.create(**asked)
        assert [choice.index for choice in answer.choices] == list(range(6))
        texts = [choice.text for choice in answer.choices]
        usage = answer.usage
    assert texts == [one.choices[0].text for one in alone for _ in range(2)]
    assert usage is not None
    assert usage.prompt_tokens == sum(one.usage.prompt_tokens for one in alone if one.usage)
    assert usage.completion_tokens == 24


def test_echo_repeats_each_prompt(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="tiny", prompt=["abc", "xyz"], max_tokens=2, echo=True)
    assert [choice.text[:3] for choice in answer.choices] == ["abc", "xyz"]
