"""The same conversation in every dialect is the same request to an engine, whatever is said in it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from blazar import _native

# Anthropic refuses texts of white space alone.
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip())
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(WORDS, VALUES, max_size=3)
# One exchange: what is asked, a call with its result or none, what is answered.
EXCHANGES = st.lists(st.tuples(WORDS, st.none() | st.tuples(ARGUMENTS, WORDS), WORDS), max_size=3)


def openai(system: str | None, exchanges: list[Any], last: str) -> dict[str, Any]:
    messages: list[Any] = [] if system is None else [{"role": "system", "content": system}]
    for number, (asked, call, answered) in enumerate(exchanges):
        messages.append({"role": "user", "content": asked})
        if call:
            function = {"name": "f", "arguments": json.dumps(call[0], ensure_ascii=False)}
            one = {"id": f"c{number}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [one]})
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": call[1]})
        messages.append({"role": "assistant", "content": answered})
    return {"model": "m", "max_tokens": 900, "messages": [*messages, {"role": "user", "content": last}]}


def ollama(system: str | None, exchanges: list[Any], last: str) -> dict[str, Any]:
    body = openai(system, exchanges, last)
    for message in body["messages"]:
        message["content"] = message["content"] or ""
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return body


def anthropic(system: str | None, exchanges: list[Any], last: str) -> dict[str, Any]:
    messages: list[Any] = []
    for number, (asked, call, answered) in enumerate(exchanges):
        messages.append({"role": "user", "content": asked})
        if call:
            use = {"type": "tool_use", "id": f"c{number}", "name": "f", "input": call[0]}
            result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": call[1]}
            messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        messages.append({"role": "assistant", "content": answered})
    body = {"model": "m", "max_tokens": 900, "messages": [*messages, {"role": "user", "content": last}]}
    return body if system is None else body | {"system": system}


def responses(system: str | None, exchanges: list[Any], last: str) -> dict[str, Any]:
    items: list[Any] = []
    for number, (asked, call, answered) in enumerate(exchanges):
        items.append({"role": "user", "content": asked})
        if call:
            arguments = json.dumps(call[0], ensure_ascii=False)
            items.append({"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": arguments})
            items.append({"type": "function_call_output", "call_id": f"c{number}", "output": call[1]})
        items.append({"role": "assistant", "content": answered})
    body = {"model": "m", "input": [*items, {"role": "user", "content": last}]}
    return body if system is None else body | {"instructions": system}


def messages_for_the_engine(route: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    inbound = _native.parse(route, json.dumps(body).encode())
    _, asked = _native.count_request(inbound, "llama", "m")
    messages: list[dict[str, Any]] = json.loads(asked)["messages"]
    for message in messages:
        message.pop("name", None)  # only some dialects repeat the name with the result
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return messages


@given(st.none() | WORDS, EXCHANGES, WORDS)
def test_every_dialect_says_the_same(system: str | None, exchanges: list[Any], last: str) -> None:
    expected = messages_for_the_engine("openai.chat", openai(system, exchanges, last))
    for route, write in (
        ("ollama.chat", ollama),
        ("anthropic.messages", anthropic),
        ("openai.responses", responses),
    ):
        assert messages_for_the_engine(route, write(system, exchanges, last)) == expected, route
    assert expected[-1]["content"].endswith(last)
