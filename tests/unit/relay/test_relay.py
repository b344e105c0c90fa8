"""The relay over real sockets, against a small engine of the test's own; ``Lines`` stands in for the native object."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from blazar import _native
from blazar.config.schema import Relay as Settings
from blazar.errors import NoConnection
from blazar.relay.delivery import Delivery, Reason
from blazar.relay.relay import Relay

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Lines:
    """An answer of lines that ends with ``end``; every line is passed on in upper case."""

    request = b"go\n"
    ends_at_close = False

    def __init__(self, *, keep: bool = True) -> None:
        self.phase = _native.PHASE_HEAD
        self.reusable = keep
        self.failure: Reason | None = None

    def feed(self, data: bytes, now_ns: int, /) -> bytes:
        self.phase = _native.PHASE_DONE if data.endswith(b"end\n") else _native.PHASE_BODY
        return data.upper()

    def eof(self, now_ns: int, /) -> bytes:
        raise AssertionError("an answer with an end of its own is not ended by the connection's")

    def fail(self, kind: str, code: str, message: str, now_ns: int, /) -> bytes:
        before, self.phase = self.phase, _native.PHASE_FAILED
        self.failure = Reason(kind, code, message)
        return b"!" + code.encode() if before == _native.PHASE_BODY else b""


class At(msgspec.Struct, frozen=True):
    """Where the engine listens."""

    host: str = "127.0.0.1"
    port: int = 0
    unix: str = ""
    name: str = "m"
    generation: int = 1


class Watcher:
    """What the relay tells of children."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, int]] = []

    def refused(self, name: str, generation: int) -> None:
        self.told.append(("refused", name, generation))

    def silent(self, name: str, generation: int) -> None:
        self.told.append(("silent", name, generation))


async def why() -> Reason:
    return Reason("crashed", "ENGINE_CRASHED", "it died")


@asynccontextmanager
async def engine(handler: Handler, unix: str = "") -> AsyncIterator[tuple[At, list[asyncio.StreamWriter]]]:
    """Serve with ``handler``; on leaving, every connection has ended."""
    seen: list[asyncio.StreamWriter] = []
    tasks: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        finally:
            writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer)
        tasks.append(asyncio.create_task(serve(reader, writer)))

    if unix:
        server = await asyncio.start_unix_server(connected, unix)
        endpoint = At(unix=unix)
    else:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        endpoint = At(port=server.sockets[0].getsockname()[1])
    try:
        yield endpoint, seen
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def relaying(watcher: Watcher | None = None, **options: float) -> AsyncIterator[Relay]:
    relay = Relay(Settings(**options), watcher or Watcher())  # type: ignore[arg-type]
    relay.start()
    try:
        yield relay
    finally:
        relay.stop(Reason("unavailable", "SHUTTING_DOWN", "over"))
        await asyncio.sleep(0)


async def politely(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.readline():
        writer.write(b"one\n")
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(b"end\n")


async def collect(delivery: Delivery) -> bytes:
    return b"".join([piece async for piece in delivery])


async def test_an_answer_arrives_whole_and_its_connection_serves_again() -> None:
    async with engine(politely) as (endpoint, seen), relaying() as relay:
        for _ in range(3):
            delivery = await relay.open(endpoint, Lines(), why)
            await delivery.head()
            assert await collect(delivery) == b"ONE\nEND\n"
            relay.close(delivery)
        assert len(seen) == 1
        assert relay.live == 0


async def test_a_connection_that_cannot_be_kept_is_closed() -> None:
    async with engine(politely) as (endpoint, seen), relaying() as relay:
        for _ in range(2):
            delivery = await relay.open(endpoint, Lines(keep=False), why)
            assert await delivery.whole() == b"ONE\nEND\n"
            relay.close(delivery)
        assert len(seen) == 2


async def test_a_unix_socket_serves_like_a_port(tmp_path: Path) -> None:
    async with engine(politely, unix=str(tmp_path / "engine.sock")) as (endpoint, _), relaying() as relay:
        delivery = await relay.open(endpoint, Lines(), why)
        assert await delivery.whole() == b"ONE\nEND\n"
        relay.close(delivery)


async def test_a_kept_connection_that_the_engine_closed_is_replaced_unseen() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"end\n")
        await writer.drain()
        # Takes the next request and closes without a byte, as an engine does whose keep-alive ran out.
        await reader.readline()

    async with engine(once) as (endpoint, seen), relaying() as relay:
        for _ in range(3):
            delivery = await relay.open(endpoint, Lines(), why)
            assert await delivery.whole() == b"END\n"
            relay.close(delivery)
        assert len(seen) == 3


async def test_closing_in_the_middle_closes_the_engines_connection_at_once() -> None:
    left = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"one\n")
        assert await reader.read() == b""
        left.set()

    async with engine(endless) as (endpoint, _), relaying() as relay:
        delivery = await relay.open(endpoint, Lines(), why)
        assert await anext(delivery) == b"ONE\n"
        relay.close(delivery)
        async with asyncio.timeout(0.2):
            await left.wait()
        assert relay.live == 0


async def test_a_cut_in_the_middle_is_explained_in_the_stream() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"one\n")
        await writer.drain()

    async with engine(cut) as (endpoint, _), relaying() as relay:
        answer = Lines()
        delivery = await relay.open(endpoint, answer, why)
        assert await collect(delivery) == b"ONE\n!ENGINE_CRASHED"
        assert answer.failure == await why()
        relay.close(delivery)


async def test_a_cut_before_the_first_byte_is_a_failure_without_bytes() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()

    async with engine(cut) as (endpoint, _), relaying() as relay:
        answer = Lines()
        delivery = await relay.open(endpoint, answer, why)
        await delivery.head()
        assert answer.phase == _native.PHASE_FAILED
        relay.close(delivery)


@pytest.mark.parametrize(("says", "what"), [(b"", "no answer"), (b"one\n", "no further byte")])
async def test_silence_has_a_bound(says: bytes, what: str) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(says)
        await reader.read()

    async with engine(silent) as (endpoint, _), relaying(head_s=0.05, idle_s=0.05) as relay:
        answer = Lines()
        delivery = await relay.open(endpoint, answer, why)
        async with asyncio.timeout(3):
            await delivery.whole()
        assert answer.failure is not None
        assert answer.failure.code == "GATEWAY_TIMEOUT"
        assert what in answer.failure.message
        relay.close(delivery)


async def test_a_slow_client_holds_the_engine_back() -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readline()
        for _ in range(2000):
            writer.write(b"x" * 16383 + b"\n")
            await writer.drain()
            sent += 16384
        writer.write(b"end\n")
        await writer.drain()
        await reader.read()

    async with engine(flood) as (endpoint, _), relaying(buffer_bytes=65536) as relay:
        delivery = await relay.open(endpoint, Lines(), why)
        await delivery.head()
        await asyncio.sleep(0.3)
        held = sent
        assert held < 2000 * 16384 / 2
        assert len(await collect(delivery)) == 2000 * 16384 + 4
        relay.close(delivery)


async def test_what_arrives_while_the_reader_waits_goes_straight_and_nothing_overtakes() -> None:
    async def counts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        for number in range(40):
            writer.write(b"%d\n" % number)
            await writer.drain()
            await asyncio.sleep(0.002 if number % 7 else 0)
        writer.write(b"end\n")

    got: list[bytes] = []
    straight = 0

    def send(data: bytes) -> Awaitable[object] | None:
        nonlocal straight
        straight += 1
        got.append(data)
        # Every third time the way out is full for a moment.
        return asyncio.sleep(0.005) if straight % 3 == 0 else None

    async with engine(counts) as (endpoint, _), relaying() as relay:
        delivery = await relay.open(endpoint, Lines(), why)
        delivery.straight = send
        async for piece in delivery:
            got.append(piece)
            await asyncio.sleep(0)
        relay.close(delivery)
    assert b"".join(got) == b"".join(b"%d\n" % number for number in range(40)) + b"END\n"
    assert straight > 10


async def test_nobody_listens() -> None:
    watcher = Watcher()
    async with relaying(watcher) as relay:
        async with engine(politely) as (endpoint, _):
            delivery = await relay.open(endpoint, Lines(), why)
            assert await delivery.whole() == b"ONE\nEND\n"
            relay.close(delivery)
        await asyncio.sleep(0.05)
        with pytest.raises(NoConnection, match="takes no connection"):
            await relay.open(endpoint, Lines(), why)
        assert relay.live == 0
    assert watcher.told == [("refused", "m", 1)]


async def test_a_child_that_refuses_once_is_not_asked_over_a_kept_connection(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with engine(politely, path) as (endpoint, _), relaying() as relay:
        first, second = [await relay.open(endpoint, Lines(), why) for _ in range(2)]
        assert await first.whole() == await second.whole() == b"ONE\nEND\n"
        Path(path).unlink()
        third, fourth = [await relay.open(endpoint, Lines(), why) for _ in range(2)]
        with pytest.raises(NoConnection):
            await relay.open(endpoint, Lines(), why)
        # What is under way goes on, and is not kept for the next.
        for delivery in (third, fourth):
            assert await delivery.whole() == b"ONE\nEND\n"
        with pytest.raises(NoConnection):
            await relay.open(endpoint, Lines(), why)
        for delivery in (first, second, third, fourth):
            relay.close(delivery)


async def test_only_a_silence_of_all_that_a_child_owes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one_speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        if len(seen) == 1:
            await quiet.wait()
        while not over.is_set():
            writer.write(b"one\n")
            await writer.drain()
            await asyncio.sleep(0.05)
        await quiet.wait()

    monkeypatch.setattr("blazar.relay.relay._SILENT_NS", 300_000_000)
    monkeypatch.setattr("blazar.relay.relay._TICK_S", 0.02)
    quiet, over, watcher = asyncio.Event(), asyncio.Event(), Watcher()
    async with engine(one_speaks) as (endpoint, seen), relaying(watcher) as relay:
        silent = await relay.open(endpoint, Lines(), why)
        speaking = await relay.open(endpoint, Lines(), why)
        await speaking.head()
        await asyncio.sleep(0.6)
        assert watcher.told == []
        over.set()
        await asyncio.sleep(0.6)
        assert set(watcher.told) == {("silent", "m", 1)}
        # Nobody waits any more.
        relay.close(silent)
        relay.close(speaking)
        watcher.told.clear()
        await asyncio.sleep(0.2)
        assert watcher.told == []


async def test_stopping_ends_every_answer_with_a_word() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"one\n")
        await reader.read()

    async with engine(endless) as (endpoint, _), relaying() as relay:
        delivery = await relay.open(endpoint, Lines(), why)
        await delivery.head()
        relay.stop(Reason("unavailable", "SHUTTING_DOWN", "over"))
        assert await collect(delivery) == b"ONE\n!SHUTTING_DOWN"
        relay.close(delivery)
