"""Clients that leave: whatever the request was doing, the engine's slot is free at once and nothing is kept."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import patient
from tests.support.server import Server, serving

# 200 ms on a machine that has nothing else to do; others share this one.
FREE_WITHIN_S = 0.5


# No two are the same, so that none is answered by another's answer.
_NUMBERS = itertools.count(10)


async def ask(
    server: Server, *, stream: bool, tokens: int, words: int = 4
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A raw request; the answer is for the caller to read or to leave."""
    payload = json.dumps(
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": f"{next(_NUMBERS)} " + "word " * words}],
            "max_tokens": tokens,
            "temperature": 0,
            "stream": stream,
        }
    ).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(payload)}\r\n\r\n"
    writer.write(head.encode() + payload)
    await writer.drain()
    return reader, writer


async def leave(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def until(what: Callable[[], bool], within_s: float) -> float:
    """Seconds until ``what`` holds; fails when it takes longer than ``within_s``."""
    began = time.monotonic()
    while True:
        holds = await asyncio.to_thread(what)
        took = time.monotonic() - began
        if holds:
            return took
        assert took < within_s, f"still not so after {took:.3f} s"
        await asyncio.sleep(0.01)


@pytest.fixture
def slow(tmp_path: Path, tiny_slow: Path) -> object:
    with serving(
        tmp_path / "home", {"tiny": tiny_slow}, BLAZAR_ENGINE_SLOTS="2", BLAZAR_ENGINE_CONTEXT="8192"
    ) as running:
        patient.post(f"{running.url}/api/generate", json={"model": "tiny"}, timeout=60)
        yield running


def idle(server: Server) -> bool:
    """No slot works, nobody waits, no answer is on its way."""
    row = next(row for row in server.ps() if row["name"] == "tiny")
    blazar: dict[str, int] = row["blazar"]  # type: ignore[assignment]
    return server.busy_slots("tiny") == 0 and blazar["in_flight"] == 0 and blazar["queued"] == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_in_the_middle_of_an_answer(slow: Server, stream: bool) -> None:
    reader, writer = await ask(slow, stream=stream, tokens=8000)
    if stream:
        await reader.readuntil(b"\n\n")
    await until(lambda: slow.busy_slots("tiny") == 1, 20)
    await leave(writer)
    await until(lambda: idle(slow), FREE_WITHIN_S)


async def test_in_prefill(slow: Server) -> None:
    _, writer = await ask(slow, stream=True, tokens=8, words=1200)
    await until(lambda: slow.busy_slots("tiny") == 1, 20)
    await leave(writer)
    await until(lambda: idle(slow), FREE_WITHIN_S)


async def test_while_queued(slow: Server) -> None:
    busy = [await ask(slow, stream=True, tokens=8000) for _ in range(2)]
    for reader, _ in busy:
        await reader.readuntil(b"\n\n")
    _, waiting = await ask(slow, stream=True, tokens=8)

    def queued() -> int:
        return int(next(row for row in slow.ps() if row["name"] == "tiny")["blazar"]["queued"])  # type: ignore[index]

    await until(lambda: queued() == 1, 20)
    await leave(waiting)
    await until(lambda: queued() == 0, FREE_WITHIN_S)
    for _, writer in busy:
        await leave(writer)
    await until(lambda: idle(slow), FREE_WITHIN_S)


async def test_while_loading(server: Server) -> None:
    patient.post(f"{server.url}/api/generate", json={"model": "tiny", "keep_alive": 0}, timeout=120)
    await until(lambda: not server.ps(), 10)
    _, writer = await ask(server, stream=True, tokens=8)
    await until(lambda: bool(server.ps()), 20)
    assert server.ps()[0]["blazar"]["state"] != "ready"  # type: ignore[index]
    await leave(writer)
    await until(lambda: bool(server.ps()) and server.ps()[0]["blazar"]["state"] == "ready", 20)  # type: ignore[index]
    await until(lambda: idle(server), 20)


async def test_a_thousand_leavers_leak_nothing(server: Server) -> None:
    assert server.process is not None

    def worker() -> int:
        from tests.support.server import children_of

        return min(pid for pid in children_of(server.process.pid))  # type: ignore[union-attr]

    def files() -> int:
        return len(list(Path(f"/proc/{worker()}/fd").iterdir()))

    def resident() -> int:
        status = Path(f"/proc/{worker()}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    async def leaver(number: int) -> None:
        stream = number % 3 != 0
        reader, writer = await ask(server, stream=stream, tokens=400)
        if stream and number % 2:
            await reader.readuntil(b"\n\n")
        else:
            await asyncio.sleep(0.003 * (number % 5))
        await leave(writer)

    for number in range(0, 200, 20):
        await asyncio.gather(*(leaver(number + i) for i in range(20)))
    await until(lambda: idle(server), 20)
    files_before, resident_before = files(), resident()
    for number in range(0, 1000, 20):
        await asyncio.gather(*(leaver(number + i) for i in range(20)))
    await until(lambda: idle(server), 20)
    health = patient.get(f"{server.url}/health").json()
    assert health["answers_in_flight"] == 0
    assert files() <= files_before + 8
    assert resident() <= resident_before + 6000, "kB"
    answer = patient.post(
        f"{server.url}/v1/chat/completions",
        json={"model": "tiny", "messages": [{"role": "user", "content": "x"}], "max_tokens": 4},
        timeout=120,
    )
    assert answer.status_code == 200
