"""Live requests, seen and ended from another connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.test_vanish import ask, idle, leave, until
from tests.support import patient
from tests.support.server import Server, serving


@pytest.fixture
def one_slot(tmp_path: Path, tiny_slow: Path) -> Iterator[Server]:
    with serving(
        tmp_path / "home",
        {"tiny": tiny_slow},
        BLAZAR_ENGINE_SLOTS="1",
        BLAZAR_ENGINE_CONTEXT="16384",
        BLAZAR_RELAY_PING_S="60",
    ) as running:
        patient.post(f"{running.url}/api/generate", json={"model": "tiny"}, timeout=60)
        yield running


def cards(server: Server, **of: str) -> list[dict[str, Any]]:
    params = {"state": "live", **of}
    rows: list[dict[str, Any]] = patient.get(f"{server.url}/v1/requests", params=params).json()["data"]
    return rows


def cancel(server: Server, card: dict[str, Any]) -> None:
    answer = patient.post(f"{server.url}/v1/requests/{card['id']}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")


@pytest.mark.parametrize("stream", [True, False])
async def test_who_generates_and_who_waits_is_seen_and_can_be_ended(one_slot: Server, stream: bool) -> None:
    server = one_slot
    # A turn of known length, so that there is something to estimate by.
    await asyncio.to_thread(
        patient.post,
        f"{server.url}/api/generate",
        json={"model": "tiny", "prompt": "x", "options": {"num_predict": 50}},
    )
    first, closes = await ask(server, stream=stream, tokens=16000)
    open_ones = [closes]
    try:
        await _walk(server, first, open_ones, stream=stream)
    finally:
        for writer in open_ones:
            await leave(writer)


async def _head(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)


async def _hears(reader: asyncio.StreamReader, words: bytes) -> bool:
    heard = b""
    while words not in heard:
        piece = await asyncio.wait_for(reader.read(65536), 20)
        if not piece:
            return False
        heard = heard[-100:] + piece
    return True


async def _walk(
    server: Server, first: asyncio.StreamReader, open_ones: list[asyncio.StreamWriter], *, stream: bool
) -> None:
    await until(lambda: [card["state"] for card in cards(server)] == ["generating"], 20)
    others = []
    for place in range(2):
        others.append(await ask(server, stream=stream, tokens=10))
        await until(lambda place=place: len(cards(server, state="queued")) == place + 1, 20)  # type: ignore[misc]
    open_ones += [writer for _, writer in others]
    waiting = await asyncio.to_thread(cards, server, state="queued")
    assert [card["position"] for card in waiting] == [0, 1]
    assert [card["stream"] for card in waiting] == [stream, stream]
    assert 0 < waiting[0]["estimated_wait_ms"] < waiting[1]["estimated_wait_ms"]
    assert await asyncio.to_thread(cards, server, model="nobody") == []
    # Somebody who waits leaves the list; whoever generates frees his slot for the next.
    await asyncio.to_thread(cancel, server, waiting[0])
    refused = await _head(others[0][0])
    assert b" 499 " in refused.split(b"\r\n")[0]
    await until(lambda: len(cards(server)) == 2, 20)
    (running,) = [card for card in await asyncio.to_thread(cards, server) if card["state"] != "queued"]
    await asyncio.to_thread(cancel, server, running)
    head = await _head(first)
    assert (b" 200 " if stream else b" 499 ") in head.split(b"\r\n")[0]
    if stream:
        assert await _hears(first, b"REQUEST_CANCELLED")
    assert b" 200 " in (await _head(others[1][0])).split(b"\r\n")[0], "the next had its turn"
    await until(lambda: idle(server) and not cards(server), 20)


async def test_an_agents_turn_goes_before_a_chat_and_a_large_prompt_behind_it(one_slot: Server) -> None:
    url, hi = f"{one_slot.url}/v1/chat/completions", [{"role": "user", "content": "Hi"}]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    large = [{"role": "user", "content": "x" * 70_000}]
    _, closes = await ask(one_slot, stream=False, tokens=16000)
    await until(lambda: len(cards(one_slot, state="generating")) == 1, 20)
    async with httpx.AsyncClient(timeout=60) as client:
        asked = []
        bodies: list[dict[str, object]] = [{"messages": large}, {"messages": hi}, {"messages": hi, "tools": tools}]
        for number, more in enumerate(bodies):
            body: dict[str, object] = {"model": "tiny", "max_tokens": 2, **more}
            asked.append(asyncio.ensure_future(client.post(url, json=body)))
            await until(lambda number=number: len(cards(one_slot, state="queued")) == number + 1, 20)  # type: ignore[misc]
        waiting = await asyncio.to_thread(cards, one_slot, state="queued")
        assert [card["position"] for card in waiting] == [2, 1, 0]
        for card in waiting:
            await asyncio.to_thread(cancel, one_slot, card)
        assert [answer.status_code for answer in await asyncio.gather(*asked)] == [499, 499, 499]
    await leave(closes)
    await until(lambda: idle(one_slot), 20)


def test_what_is_not_there_cannot_be_ended(server: Server) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel")):
        answer = patient.request(method, f"{server.url}/v1/requests/plm-0-0{path}")
        assert answer.status_code == 404
        assert "plm-0-0" in answer.text


def ended(server: Server) -> list[dict[str, Any]]:
    """Those that are over, the last first."""
    rows: list[dict[str, Any]] = patient.get(f"{server.url}/v1/requests").json()["data"]
    return [row for row in rows if "status" in row]


async def test_what_became_of_the_last_ones_stays_known(one_slot: Server) -> None:
    server, url = one_slot, f"{one_slot.url}/v1/chat/completions"
    hi = [{"role": "user", "content": "Hi"}]
    body = {
        "model": "tiny",
        "messages": hi,
        "max_tokens": 3,
        "temperature": 0,
        "logit_bias": {"259": -100, "261": -100},
    }
    async with httpx.AsyncClient(timeout=60) as client:
        done = await client.post(url, json=body)
        assert (await client.post(url, json=body | {"stop": 5})).status_code == 400, "about no model yet"
        assert (await client.post(url, json=body | {"messages": hi * 20_000})).status_code == 400
    _, closes = await ask(server, stream=True, tokens=16000)
    await until(lambda: len(cards(server, state="generating")) == 1, 20)
    await leave(closes)
    await until(lambda: idle(server) and not cards(server), 20)
    left, long, good, *_ = await asyncio.to_thread(ended, server)
    assert (good["id"], good["state"], good["status"]) == (done.headers["x-blazar-trace-id"], "done", 200)
    usage = done.json()["usage"]
    assert [good[kind] for kind in ("prompt_tokens", "completion_tokens")] == [usage["prompt_tokens"], 3]
    assert good["path"] == "/v1/chat/completions"
    assert (long["state"], long["status"]) == ("failed", 400)
    assert (left["state"], left["stream"]) == ("disconnected", True)
    assert left["completion_tokens"] > 0
    one = await asyncio.to_thread(patient.get, f"{server.url}/v1/requests/{good['id']}")
    assert one.json() == good


async def test_those_whom_nobody_waits_for_are_seen_and_can_be_ended(one_slot: Server) -> None:
    """A response in the background, and vectors."""
    server = one_slot
    _, closes = await ask(server, stream=True, tokens=16000)
    await until(lambda: len(cards(server, state="generating")) == 1, 20)
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        asked = {"model": "tiny", "input": "x", "background": True}
        made = (await client.post("/v1/responses", json=asked)).json()
        vectors = asyncio.ensure_future(client.post("/v1/embeddings", json={"model": "tiny", "input": "x"}))
        await until(lambda: len(cards(server)) == 3, 20)
        behind, vector = sorted(await asyncio.to_thread(cards, server), key=lambda card: card["created_at"])[1:]
        assert (behind["path"], behind["state"]) == ("/v1/responses", "queued")
        assert vector["path"] == "/v1/embeddings"
        for card in (behind, vector):
            await asyncio.to_thread(cancel, server, card)
        assert (await vectors).status_code == 499
        await until(lambda: len(cards(server)) == 1, 20)
        assert (await client.get(f"/v1/responses/{made['id']}")).json()["status"] == "cancelled"
        assert [(await client.get(f"/v1/requests/{card['id']}")).json()["state"] for card in (behind, vector)] == [
            "cancelled",
            "cancelled",
        ]
    await leave(closes)
    await until(lambda: idle(server), 20)
