"""The official SDKs against one server: each streaming and not, and all at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import ollama
import openai
import pytest
import pytest_asyncio

from tests.support.server import Server

QUESTION = "Say something."


Clients = tuple[openai.AsyncOpenAI, anthropic.AsyncAnthropic, ollama.AsyncClient]


@pytest_asyncio.fixture
async def clients(server: Server) -> AsyncIterator[Clients]:
    three = (
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0),
        anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0),
        ollama.AsyncClient(host=server.url),
    )
    yield three
    await three[0].close()
    await three[1].close()
    await three[2]._client.aclose()


async def ask_openai(client: openai.AsyncOpenAI, *, seed: int = 1) -> str:
    messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    whole = await client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=24, temperature=0, seed=seed
    )
    assert whole.object == "chat.completion"
    assert whole.model == "tiny"
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 24
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + 24
    stream = await client.chat.completions.create(
        model="tiny",
        messages=messages,
        max_tokens=24,
        temperature=0,
        seed=seed,
        stream=True,
        stream_options={"include_usage": True},
    )
    text, finish, usage, ids = "", None, None, set()
    async for chunk in stream:
        ids.add(chunk.id)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert len(ids) == 1
    assert finish == "length"
    assert usage is not None
    assert usage.completion_tokens == 24
    assert text == whole.choices[0].message.content
    return text


async def ask_anthropic(client: anthropic.AsyncAnthropic) -> str:
    messages: Any = [{"role": "user", "content": QUESTION}]
    greedy = {"temperature": 0}  # the newest SDK has no parameter for it
    whole = await client.messages.create(
        model="tiny", max_tokens=24, system="Be brief.", messages=messages, extra_body=greedy
    )
    assert whole.type == "message"
    assert whole.stop_reason == "max_tokens"
    assert whole.usage.output_tokens == 24
    kinds: list[str] = []
    async with client.messages.stream(
        model="tiny", max_tokens=24, system="Be brief.", messages=messages, extra_body=greedy
    ) as stream:
        async for event in stream:
            kinds.append(event.type)
        final = await stream.get_final_message()
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert final.stop_reason == "max_tokens"
    assert final.usage.output_tokens == 24
    text = "".join(block.text for block in final.content if block.type == "text")
    assert text == "".join(block.text for block in whole.content if block.type == "text")
    counted = await client.messages.count_tokens(model="tiny", system="Be brief.", messages=messages)
    assert counted.input_tokens == whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)
    return text


async def ask_ollama(client: ollama.AsyncClient) -> str:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    options = {"num_predict": 24, "temperature": 0, "seed": 1}
    whole = await client.chat(model="tiny", messages=messages, options=options)
    assert whole.done_reason == "length"
    assert whole.eval_count == 24
    assert whole.total_duration is not None
    assert whole.total_duration > 0
    text, last = "", None
    async for part in await client.chat(model="tiny", messages=messages, options=options, stream=True):
        text += part.message.content or ""
        last = part
    assert last is not None
    assert last.done
    assert last.eval_count == 24
    assert text == whole.message.content
    return text


async def test_three_sdks_at_once_agree(
    clients: Clients,
) -> None:
    texts = await asyncio.gather(
        *(ask_openai(clients[0]) for _ in range(3)),
        *(ask_anthropic(clients[1]) for _ in range(3)),
        *(ask_ollama(clients[2]) for _ in range(3)),
    )
    assert len(texts) == 9
    assert all(texts)


async def test_completions_and_generate(
    clients: Clients,
) -> None:
    whole = await clients[0].completions.create(model="tiny", prompt="abc", max_tokens=16, temperature=0)
    assert whole.object == "text_completion"
    assert whole.choices[0].finish_reason == "length"
    text = ""
    async for chunk in await clients[0].completions.create(
        model="tiny", prompt="abc", max_tokens=16, temperature=0, stream=True
    ):
        text += chunk.choices[0].text if chunk.choices else ""
    assert text == whole.choices[0].text
    options = {"num_predict": 16, "temperature": 0}
    raw = await clients[2].generate(model="tiny", prompt="abc", raw=True, options=options)
    assert raw.done
    assert raw.eval_count == 16


async def test_models_are_listed_in_every_dialect(
    clients: Clients,
) -> None:
    assert [model.id async for model in clients[0].models.list()] == ["tiny"]
    assert [model.id async for model in clients[1].models.list()] == ["tiny"]
    listed = await clients[2].list()
    assert [model.model for model in listed.models] == ["tiny"]
    shown = await clients[2].show("tiny")
    assert shown.modelinfo is not None
    assert shown.modelinfo["general.architecture"] == "llama"
    loaded = await clients[2].ps()
    assert [model.model for model in loaded.models] in (["tiny"], [])


async def test_an_unknown_model_is_the_dialects_own_not_found(
    clients: Clients,
) -> None:
    messages: Any = [{"role": "user", "content": "x"}]
    with pytest.raises(openai.NotFoundError) as one:
        await clients[0].chat.completions.create(model="tinny", messages=messages)
    assert one.value.code == "model_not_found"
    assert "'tiny'" in one.value.message
    with pytest.raises(anthropic.NotFoundError) as two:
        await clients[1].messages.create(model="tinny", messages=messages, max_tokens=5)
    assert two.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
    with pytest.raises(ollama.ResponseError) as three:
        await clients[2].chat(model="tinny", messages=messages)
    assert three.value.status_code == 404
    assert "not found" in three.value.error


async def test_a_stop_sequence_ends_the_answer_and_is_named_where_the_dialect_has_a_name_for_it(
    clients: Clients,
) -> None:
    messages: Any = [{"role": "user", "content": "Count."}]
    asked: Any = {"model": "tiny", "messages": messages, "max_tokens": 48, "temperature": 0}
    whole = (await clients[0].chat.completions.create(**asked)).choices[0].message.content or ""
    ascii_only = [character for character in whole[4:] if character.isascii() and character.isprintable()]
    stop = ascii_only[len(ascii_only) // 2]
    before = whole[: whole.index(stop)]
    one = await clients[0].chat.completions.create(**asked, stop=[stop])
    assert (one.choices[0].message.content, one.choices[0].finish_reason) == (before, "stop")
    rest: Any = {"model": "tiny", "messages": messages, "max_tokens": 48, "stop_sequences": [stop, "never said"]}
    two = await clients[1].messages.create(**rest, extra_body={"temperature": 0})
    assert (two.stop_reason, two.stop_sequence) == ("stop_sequence", stop)
    assert "".join(block.text for block in two.content if block.type == "text") == before
    async with clients[1].messages.stream(**rest, extra_body={"temperature": 0}) as stream:
        final = await stream.get_final_message()
    assert (final.stop_reason, final.stop_sequence) == ("stop_sequence", stop)
    options = {"num_predict": 48, "temperature": 0, "stop": [stop]}
    three = await clients[2].chat(model="tiny", messages=messages, options=options)
    assert (three.message.content, three.done_reason) == (before, "stop")


async def test_thinking_that_a_model_cannot_do_is_refused_or_named(clients: Clients) -> None:
    messages: Any = [{"role": "user", "content": QUESTION}]
    with pytest.raises(ollama.ResponseError, match="does not support thinking") as refused:
        await clients[2].chat(model="tiny", messages=messages, think=True)
    assert refused.value.status_code == 400
    raw = await clients[0].chat.completions.with_raw_response.create(
        model="tiny", messages=messages, max_tokens=4, reasoning_effort="high"
    )
    assert "does not support thinking" in raw.headers["x-blazar-warnings"]
    quiet = await clients[0].chat.completions.with_raw_response.create(model="tiny", messages=messages, max_tokens=4)
    assert "x-blazar-warnings" not in quiet.headers
