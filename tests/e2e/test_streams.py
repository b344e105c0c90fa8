"""Many streams at once through few slots, byte for byte what the engine itself sends."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from tests.support.server import Server

TOKENS = 200
STREAMS = 200


def body(seed: int, *, stream: bool = True) -> dict[str, object]:
    return {
        "model": "tiny",
        "messages": [{"role": "user", "content": f"Tell {seed}"}],
        "max_tokens": TOKENS,
        "temperature": 0,
        "seed": seed,
        "stream": stream,
    }


def text_of(raw: bytes) -> str:
    """The concatenated content of an OpenAI stream, which must be well formed to its end."""
    frames = raw.decode("utf-8").split("\n\n")
    assert frames[-1] == ""
    assert frames[-2] == "data: [DONE]"
    text = ""
    for frame in frames[:-2]:
        if frame.startswith(": "):
            continue  # why it waits
        assert frame.startswith("data: ")
        chunk = json.loads(frame[6:])
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
    return text


async def direct(server: Server, seeds: list[int]) -> dict[int, str]:
    """What the engine answers by itself, asked one at a time with a fresh prompt cache."""
    row = next(row for row in server.ps() if row["name"] == "tiny")
    socket = row["blazar"]["socket"]  # type: ignore[index]
    secret = server.secret_of("tiny")
    found = {}
    async with httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=socket, limits=httpx.Limits(max_keepalive_connections=0)),
        base_url="http://engine",
        timeout=60,
    ) as engine:
        for seed in seeds:
            answer = await engine.post(
                "/v1/chat/completions",
                json=body(seed) | {"cache_prompt": False},
                headers={"authorization": f"Bearer {secret}"},
            )
            found[seed] = text_of(answer.content)
    return found


async def test_two_hundred_streams_through_eight_slots(server: Server) -> None:
    limits = httpx.Limits(max_connections=STREAMS, max_keepalive_connections=STREAMS)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:

        async def one(seed: int) -> tuple[int, str]:
            answer = await client.post("/v1/chat/completions", json=body(seed))
            assert answer.status_code == 200, answer.text
            return seed, text_of(answer.content)

        texts = dict(await asyncio.gather(*(one(seed) for seed in range(STREAMS))))
    expected = await direct(server, list(range(STREAMS)))
    assert texts == expected
    assert server.busy_slots("tiny") == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_utf8_survives_every_dialect(server: Server, stream: bool) -> None:
    """The tiny model answers in bytes that split characters over tokens; every frame is UTF-8 and all texts agree."""
    messages = [{"role": "user", "content": "Straße 東京 🜁"}]
    common = {"model": "tiny", "messages": messages, "stream": stream}
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        one = await client.post("/v1/chat/completions", json=common | {"max_tokens": 64, "temperature": 0})
        two = await client.post("/v1/messages", json=common | {"max_tokens": 64, "temperature": 0})
        options = {"num_predict": 64, "temperature": 0}
        three = await client.post("/api/chat", json=common | {"options": options})
    if stream:
        first = text_of(one.content)
        second = "".join(
            event["delta"].get("text", "")
            for event in (json.loads(line[6:]) for line in two.text.split("\n") if line.startswith("data: "))
            if event["type"] == "content_block_delta"
        )
        third = "".join(json.loads(line)["message"]["content"] for line in three.text.splitlines())
    else:
        first = one.json()["choices"][0]["message"]["content"]
        second = "".join(block["text"] for block in two.json()["content"])
        third = three.json()["message"]["content"]
    assert first == second == third
    assert first


def test_the_engines_tools_answer_under_its_own_paths(server: Server) -> None:
    with httpx.Client(base_url=server.url, timeout=120) as client:
        tokens = client.post("/tokenize", json={"model": "tiny", "content": "abc"}).json()["tokens"]
        assert len(tokens) == 3
        assert client.post("/detokenize", json={"tokens": tokens}).json()["content"] == "abc", "the only one loaded"
        messages = [{"role": "user", "content": "hi"}]
        prompt = client.post("/apply-template?model=tiny", json={"messages": messages}).json()["prompt"]
        assert prompt == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
        assert client.post("/tokenize", json={"model": "nobody", "content": "abc"}).status_code == 404
        assert client.post("/tokenize", content=b"{").status_code == 400
