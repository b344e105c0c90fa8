"""Answers that must have a shape, several prompts at once, and reasoning under both of its names, on a real engine."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
import zstandard

from tests.support import patient
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
    return patient.post(f"{server.url}/v1/chat/completions", json=asked, headers=headers, timeout=120)


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
    answer = patient.post(server.url + route, json={"model": "tiny", **body}, timeout=120)
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


LOOSE = {
    "type": "object",
    "properties": {"x": {"type": "number", "minimum": 5}, "m": {"type": "string", "format": "email"}},
    "required": ["x"],
}


def test_what_no_grammar_holds_is_named_and_then_checked(server: Server) -> None:
    loose = {"type": "json_schema", "json_schema": {"name": "s", "schema": LOOSE}}
    answer = ask(server, response_format=loose, max_tokens=200)
    assert answer.status_code == 200
    assert "minimum (at properties.x.minimum)" in answer.headers["x-blazar-warnings"]
    assert "format (at properties.m.format)" in answer.headers["x-blazar-warnings"]
    assert answer.headers["x-blazar-structured-output"].split(";")[0] in {"valid", "invalid"}


def test_a_strict_schema_that_cannot_be_held_is_refused_by_keyword(server: Server) -> None:
    schema = {"type": "object", "properties": {"x": {"not": {"type": "null"}}}}
    strict = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}}
    answer = ask(server, response_format=strict, max_tokens=20)
    assert answer.status_code == 400
    assert "not (at properties.x.not)" in answer.json()["error"]["message"]
    strict["json_schema"]["strict"] = False  # type: ignore[index]
    assert ask(server, response_format=strict, max_tokens=20).status_code == 200


def message(server: Server, system: Any, **headers: str) -> httpx.Response:
    asked = {"model": "tiny", "max_tokens": 2, "system": system, "messages": MESSAGES}
    return patient.post(f"{server.url}/v1/messages", json=asked, headers=headers, timeout=120)


def test_lines_that_change_do_not_cost_the_prefix(server: Server) -> None:
    rules = "Be kind. " * 40

    def system(number: int) -> Any:
        return [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={number}{number};"},
            {"type": "text", "text": rules, "cache_control": {"type": "ephemeral"}},
        ]

    first, second = message(server, system(1)), message(server, system(2))
    assert second.headers["x-blazar-normalised"] == "x-anthropic-billing-header"
    assert first.json()["usage"]["input_tokens"] < len(rules) + 100, "the line is not read at all"
    assert second.json()["usage"]["cache_read_input_tokens"] > len(rules)
    assert "x-blazar-normalised" not in message(server, rules).headers


def test_compressed_bodies_are_read(server: Server) -> None:
    body = json.dumps({"model": "tiny", "messages": MESSAGES, "max_tokens": 2}).encode()
    url = f"{server.url}/v1/chat/completions"
    packed = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}

    def post(content: bytes, coding: str) -> httpx.Response:
        return patient.post(url, content=content, headers={"content-encoding": coding})

    for coding, pack in packed.items():
        assert post(pack(body), coding).json()["choices"][0]["finish_reason"] == "length"
        for content, words in ((pack(body)[:-9], "cut off"), (body, f"not {coding}"), (b"", "cut off")):
            bad = post(content, coding)
            assert bad.status_code == 400
            assert words in bad.json()["error"]["message"]
        assert post(pack(b" " * (60 * 1024 * 1024)), coding).status_code == 413
    assert "br" in post(body, "br").json()["error"]["message"]
