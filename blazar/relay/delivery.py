"""One answer on its way from a child to a client: a bounded buffer between one that pushes and one that pulls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, NamedTuple, Protocol

from blazar import _native
from blazar.errors import BadGateway

if TYPE_CHECKING:
    from blazar.relay.wire import Wire

_BODY, _DONE = _native.PHASE_BODY, _native.PHASE_DONE


class Reason(NamedTuple):
    """Why an answer failed, as the native side takes it: a fault's kind, a ``blazar_code`` and a sentence."""

    kind: str
    code: str
    message: str


class Answer(Protocol):
    """The native object that turns an engine's bytes into the client's: ``_native.Exchange`` or ``_native.Call``."""

    @property
    def request(self) -> bytes | memoryview:
        """The whole HTTP request."""

    @property
    def phase(self) -> int:
        """One of ``_native.PHASE_…``."""

    @property
    def reusable(self) -> bool:
        """The connection can carry another request."""

    @property
    def ends_at_close(self) -> bool:
        """The engine's closing now would be the answer's proper end."""

    def feed(self, data: bytes, now_ns: int, /) -> bytes:
        """The client's bytes for the engine's."""

    def eof(self, now_ns: int, /) -> bytes:
        """The engine closed."""

    def fail(self, kind: str, code: str, message: str, now_ns: int, /) -> bytes:
        """A failure that only the caller knows."""


class Delivery:
    """Iterate for the client's bytes.

    ``finished`` is called when the answer is complete, before its last bytes are handed on.

    With ``straight`` set, what arrives while the reader waits goes straight to that function, which spares the way over
    the reader's task; it answers None when the bytes are out, or something to await before more may follow, which the
    reader then does.

    :meth:`Relay.close` it on every path: that stops the engine unless the answer was complete. (It has no ``close`` of
    its own, which Falcon would await.)

    ``explain`` is asked when the connection ends before the answer does; it may wait a moment to learn that the
    child died. ``again`` sends the request once more on a fresh connection, where a kept one
    turned out to be closed.
    """

    __slots__ = (
        "_again",
        "_answer",
        "_buffer",
        "_bytes",
        "_cut",
        "_explain",
        "_flowing",
        "_high",
        "_kept",
        "_paused",
        "_pending",
        "_waiter",
        "_wire",
        "ended",
        "finished",
        "heard",
        "last_ns",
        "straight",
        "told_ns",
    )

    def __init__(
        self,
        answer: Answer,
        *,
        high: int,
        explain: Callable[[], Awaitable[Reason]],
        again: Callable[[Delivery], Awaitable[None]],
    ) -> None:
        self._answer = answer
        self._explain = explain
        self._again = again
        self._high = high
        self._buffer: list[bytes] = []
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._wire: Wire | None = None
        self._paused = False
        self._cut = False
        self._kept = False
        self._flowing = False
        self._pending: Awaitable[object] | None = None
        self.straight: Callable[[bytes], Awaitable[object] | None] | None = None
        self.finished: Callable[[], None] | None = None
        self.ended = False
        self.heard = False
        self.last_ns = 0
        self.told_ns = 0

    @property
    def reusable(self) -> bool:
        """The connection can carry another request."""
        return self._answer.reusable

    @property
    def held_back(self) -> bool:
        """The engine is made to wait for a slow client, so that its silence is our doing."""
        return self._paused

    @property
    def flowing(self) -> bool:
        """The reader waits, and what comes goes straight on."""
        return self._flowing

    def ride(self, wire: Wire, now_ns: int) -> None:
        """Send the request on ``wire``."""
        self._wire = wire
        self._kept = not wire.fresh
        self.last_ns = now_ns
        wire.carry(self, self._answer.request)

    def arrived(self, data: bytes, now_ns: int) -> bool:
        """The wire has bytes. True: the answer is complete and the wire is free."""
        self.heard = True
        self.last_ns = now_ns
        answer = self._answer
        out = answer.feed(data, now_ns)
        if out:
            self.told_ns = now_ns
        over = answer.phase >= _DONE
        if out and self._flowing and not over:
            self._flow(out)
            return False
        if out:
            self._push(out)
        if over:
            self._end()
            self._wire = None
        if out or over or (self._waiter is not None and answer.phase >= _BODY):
            self._wake()
        return over

    def lost(self, now_ns: int) -> None:
        """The wire is gone."""
        self._wire = None
        if self.ended:
            return
        if not self._answer.ends_at_close:
            self._cut = True
        else:
            out = self._answer.eof(now_ns)
            self._end()
            if out:
                self._push(out)
        self._wake()

    def end_with(self, reason: Reason, now_ns: int) -> None:
        """Stop here: the client gets its dialect's error, the engine is let go."""
        if self.ended:
            return
        out = self._answer.fail(reason.kind, reason.code, reason.message, now_ns)
        self.ended = True
        self._let_go()
        if out:
            self._push(out)
        self._wake()

    async def head(self) -> None:
        """Wait until there is something for the client, or the end."""
        while not (self.ended or self._buffer or self._answer.phase >= _BODY):
            await self._wait()
            if self._cut:
                await self._explained()

    async def whole(self) -> bytes:
        """All of it, once it is complete."""
        while not self.ended:
            await self._wait()
            if self._cut:
                await self._explained()
        return self._take()

    def __aiter__(self) -> Delivery:
        return self

    async def __anext__(self) -> bytes:
        while not self._buffer:
            if self.ended:
                raise StopAsyncIteration
            if self._cut:
                await self._explained()
                continue
            self._flowing = self.straight is not None
            try:
                await self._wait()
            finally:
                self._flowing = False
            if self._pending is not None:
                pending, self._pending = self._pending, None
                await pending
        return self._take()

    def abandon(self) -> None:
        """Give the connection up. An answer that was not complete is cancelled in the engine."""
        self.ended = True
        self._buffer.clear()
        self._let_go()

    def _end(self) -> None:
        self.ended = True
        finished, self.finished = self.finished, None
        if finished is not None:
            finished()

    def _let_go(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.drop()

    def _flow(self, out: bytes) -> None:
        """The reader waits: its bytes go out from here."""
        assert self.straight is not None
        self._pending = self.straight(out)
        if self._pending is not None:
            self._flowing = False
            self._wake()

    def _push(self, out: bytes) -> None:
        self._buffer.append(out)
        self._bytes += len(out)
        if self._bytes > self._high and not self._paused and self._wire is not None:
            self._paused = True
            self._wire.pause()

    def _take(self) -> bytes:
        buffer = self._buffer
        out = buffer[0] if len(buffer) == 1 else b"".join(buffer)
        buffer.clear()
        self._bytes = 0
        if self._paused:
            self._paused = False
            if self._wire is not None:
                self._wire.resume()
        return out

    async def _explained(self) -> None:
        self._cut = False
        if self._kept and not self.heard:
            # Engines close idle connections; one that did so as we wrote has not seen the request.
            await self._again(self)
        else:
            self.end_with(await self._explain(), monotonic_ns())

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise BadGateway("Two readers wait for one answer.")
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        self._flowing = False
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
