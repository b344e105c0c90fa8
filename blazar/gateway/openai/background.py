"""Responses that go on without their client, and can be listened to again."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from time import monotonic_ns
from typing import TYPE_CHECKING

import msgspec

from blazar import _native
from blazar.errors import BlazarError, Conflict, Internal
from blazar.gateway.errand import Errand
from blazar.gateway.exchange import begin
from blazar.gateway.openai import kept

if TYPE_CHECKING:
    from blazar.gateway.register import Register
    from blazar.node import Node

_log = logging.getLogger("blazar.gateway")
_MOST_RUNNING = 256
_REMEMBERED = 64
_EMPTY = b"\n\n"


class _Event(msgspec.Struct):
    response: msgspec.Raw


class Job:
    """One response on its own. Frames are numbered as their ``sequence_number`` is."""

    def __init__(self, node: Node, register: Register, inbound: _native.Inbound, errand: Errand) -> None:
        self._node = node
        self._register = register
        # It is always written as a stream, which says everything that the object does.
        self._inbound = inbound.streamed(True)
        self._errand = errand
        self._frames: list[bytes] = []
        self._news = asyncio.Event()
        self._over = False
        self._prelude = _native.Prelude(
            self._inbound, id=errand.id, created_ns=errand.created_ns, started_ns=errand.started_ns
        )
        self._start = self._prelude.start(monotonic_ns())
        self.id = f"resp_{errand.id}"
        self.opening = _with_status(_object(self._start.split(_EMPTY)[0]), "queued")
        kept.keep(node, inbound, self.opening, owner=errand.owner)
        errand.task = self.task = asyncio.ensure_future(self._run())

    async def events(self, after: int) -> AsyncIterator[bytes]:
        """The frames after that number, as they come, until it is over."""
        at = after + 1
        while True:
            news = self._news
            if at < len(self._frames):
                fresh = self._frames[at:]
                at = len(self._frames)
                yield b"".join(fresh)
            elif self._over:
                return
            else:
                await news.wait()

    async def _run(self) -> None:
        with self._register.during(self._errand):
            await self._answer()

    async def _answer(self) -> None:
        try:
            async for piece in await begin(self._node, self._errand, self._inbound):
                self._add(piece)
        except BlazarError as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._end(_with_status(self._last(), "cancelled"))
        except Exception:  # noqa: BLE001  (whoever fetches it is told; the log has the rest)
            _log.exception("trace %s: a response in the background failed", self._errand.trace)
            self._fail(Internal(self._errand.trace))
        else:
            self._end(self._last())

    def _fail(self, error: BlazarError) -> None:
        """It ends before the engine said anything; afterwards, the failure would be the last of its events."""
        self._errand.status = error.status
        told = self._prelude.fail(error.status, error.code, error.message, monotonic_ns())
        if self._frames:
            self._end(_with_status(self._last(), "failed"))
        else:
            self._add(self._start + told)
            self._end(self._last())

    def _add(self, piece: bytes) -> None:
        frames = [frame + _EMPTY for frame in piece.split(_EMPTY) if frame and not frame.startswith(b":")]
        self._frames += frames
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _last(self) -> bytes:
        """The object as the last event that has one says it."""
        for frame in reversed(self._frames):
            if b'"response":{' in frame[:400]:
                return _object(frame)
        return self.opening

    def _end(self, body: bytes) -> None:
        try:
            kept.keep(self._node, self._inbound, body, owner=self._errand.owner)
        finally:
            self._over = True
            self._news.set()


class Jobs:
    """All that run, and the last that did."""

    def __init__(self, node: Node, register: Register) -> None:
        self._node = node
        self._register = register
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def start(self, inbound: _native.Inbound, errand: Errand) -> Job:
        """Begin, on an errand of its own. Raises Conflict where too many run."""
        running = sum(not job.task.done() for job in self._jobs.values())
        if running >= _MOST_RUNNING:
            raise Conflict(f"{running} responses run in the background already; wait for one, or cancel one.")
        job = Job(self._node, self._register, inbound, errand)
        self._jobs[job.id] = job
        for id in [id for id, old in self._jobs.items() if old.task.done()][:-_REMEMBERED]:  # noqa: A001
            del self._jobs[id]
        return job

    def get(self, id: str) -> Job | None:  # noqa: A002  (it is one)
        """The job of a response that runs, or ran lately."""
        return self._jobs.get(id)

    async def cancel(self, id: str) -> None:  # noqa: A002
        """Stop it, if it runs."""
        job = self._jobs.get(id)
        if job is not None and not job.task.done():
            job.task.cancel()
            await asyncio.wait([job.task])


def _object(frame: bytes) -> bytes:
    data = frame.partition(b"data: ")[2]
    return bytes(msgspec.json.decode(data, type=_Event).response)


def _with_status(body: bytes, status: str) -> bytes:
    value = msgspec.json.decode(body)
    value["status"] = status
    return msgspec.json.encode(value)
