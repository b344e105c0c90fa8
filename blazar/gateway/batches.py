"""Runs batches of either dialect: line by line, behind everybody who waits, and on from where a stop left it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec

from blazar.errors import BadRequest, BlazarError, Conflict, Internal, NotFound, RateLimited, Unauthorized
from blazar.gateway import errors
from blazar.gateway.due import mine
from blazar.gateway.errand import Errand
from blazar.gateway.exchange import parse, run
from blazar.store import BatchRow

if TYPE_CHECKING:
    from blazar.gateway.register import Register
    from blazar.node import Node

_log = logging.getLogger("blazar.gateway")
_AT_ONCE = 4
_SAVE_EVERY_NS = 500_000_000
LIFE_NS = 24 * 3600 * 1_000_000_000
MOST_LINES = 50_000
MOST_BYTES = 200 * 1024 * 1024

Status = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]  # fmt: skip


class Batch(msgspec.Struct, kw_only=True):
    """What is known of a batch; times are Unix ns, 0 where it did not come to that."""

    id: str
    dialect: str
    owner: str = ""
    status: Status = "validating"
    endpoint: str = ""
    source: str = ""
    metadata: dict[str, str] | None = None
    faults: list[dict[str, Any]] = []
    total: int = 0
    succeeded: int = 0
    errored: int = 0
    cancelled: int = 0
    expired: int = 0
    created_ns: int = 0
    begun_ns: int = 0
    finalizing_ns: int = 0
    ended_ns: int = 0
    cancelling_ns: int = 0
    output: str = ""
    errors: str = ""

    @property
    def over(self) -> bool:
        """Nothing is left to be done."""
        return self.status in {"failed", "completed", "expired", "cancelled"}


class Line(NamedTuple):
    """One request; ``route`` as ``_native.parse`` or the dialect names it."""

    custom_id: str
    route: str
    body: bytes


class Outcome(NamedTuple):
    """What became of a line: ``kind`` is ``succeeded``, ``errored``, ``cancelled`` or ``expired``."""

    custom_id: str
    kind: str
    status: int
    trace: str
    body: bytes


class Dialect(Protocol):
    """How a dialect reads and writes its batches."""

    def lines(self, batch: Batch) -> Iterator[Line]:
        """The requests, in order."""

    def finished(self, batch: Batch) -> set[str]:
        """The ``custom_id`` of every line whose outcome is written."""

    async def answer(self, errand: Errand, line: Line) -> bytes:
        """The body of the answer. Raises BlazarError."""

    def write(self, batch: Batch, outcome: Outcome) -> None:
        """Append an outcome."""

    def close(self, batch: Batch) -> None:
        """All outcomes are written."""


class Batches:
    """All that run. Each belongs to the store; what is written of it survives a stop."""

    def __init__(self, node: Node, register: Register) -> None:
        self._node = node
        self._register = register
        self._dialects: dict[str, Dialect] = {}
        self._live: dict[str, tuple[Batch, asyncio.Task[None]]] = {}
        self._leaving = False
        node.leaving.add(self._leave)

    def speaks(self, name: str, dialect: Dialect) -> None:
        """Batches of that name are read and written by ``dialect``."""
        self._dialects[name] = dialect

    def resume(self) -> None:
        """Go on with what a stop left."""
        for row in self._node.store.batches.open():
            self._begin(msgspec.json.decode(row.state, type=Batch))

    def start(self, batch: Batch) -> None:
        """Keep it and begin."""
        self.keep(batch)
        self._begin(batch)

    def get(self, id: str, dialect: str, errand: Errand) -> Batch:  # noqa: A002  (it is one)
        """The batch as it stands. Raises NotFound, also where it is another key's."""
        batch = self._find(id, dialect)
        if batch is None or not mine(errand, batch.owner):
            raise NotFound(f"batch '{id[:80]}'")
        return batch

    def _find(self, id: str, dialect: str) -> Batch | None:  # noqa: A002
        live = self._live.get(id)
        if live is not None and live[0].dialect == dialect:
            return live[0]
        row = self._node.store.batches.get(id)
        if row is None or row.dialect != dialect:
            return None
        return msgspec.json.decode(row.state, type=Batch)

    def list(self, dialect: str, errand: Errand) -> list[Batch]:
        """Every batch of a dialect that is there for the key, the newest first."""
        found = (self._find(row.id, dialect) for row in self._node.store.batches.list(dialect))
        return [batch for batch in found if batch is not None and mine(errand, batch.owner)]

    def cancel(self, id: str, dialect: str, errand: Errand) -> Batch:  # noqa: A002
        """Begin no further line of it. Raises NotFound; Conflict when it is over."""
        batch = self.get(id, dialect, errand)
        if batch.over:
            raise Conflict(f"The batch '{id[:80]}' is over: {batch.status}.")
        if not batch.cancelling_ns:
            batch.cancelling_ns = time_ns()
            batch.status = "cancelling"
            self.keep(batch)
        return batch

    def delete(self, id: str, dialect: str, errand: Errand) -> None:  # noqa: A002
        """Let it go. Raises NotFound; Conflict while it runs."""
        if not self.get(id, dialect, errand).over:
            raise Conflict(f"The batch '{id[:80]}' still runs; cancel it first.")
        self._node.store.batches.delete(id)

    def _begin(self, batch: Batch) -> None:
        task = asyncio.ensure_future(self._run(batch))
        self._live[batch.id] = (batch, task)
        task.add_done_callback(lambda _: self._live.pop(batch.id, None))

    def keep(self, batch: Batch) -> None:
        """Write down how it stands."""
        state = msgspec.json.encode(batch).decode()
        self._node.store.batches.put(BatchRow(batch.id, batch.dialect, batch.created_ns, batch.over, state))

    def _leave(self) -> None:
        """The daemon stops: what is being answered is asked again by the next life."""
        self._leaving = True
        for batch, task in tuple(self._live.values()):
            task.cancel()
            self.keep(batch)

    async def _run(self, batch: Batch) -> None:
        dialect = self._dialects[batch.dialect]
        try:
            await self._lines(batch, dialect)
        except asyncio.CancelledError:
            return
        except Exception:  # noqa: BLE001  (a fault of ours: the batch says so, the log has the rest)
            _log.exception("batch %s", batch.id)
            batch.status = "failed"
            batch.faults = [{"code": "internal", "message": str(Internal(batch.id)), "line": None, "param": None}]
        batch.ended_ns = time_ns()
        self.keep(batch)

    async def _lines(self, batch: Batch, dialect: Dialect) -> None:
        done = await asyncio.to_thread(dialect.finished, batch)
        if batch.status == "validating":
            batch.status = "in_progress"
        batch.begun_ns = batch.begun_ns or time_ns()
        self.keep(batch)
        saved_ns = time_ns()
        room = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for line in dialect.lines(batch):
                if line.custom_id in done:
                    continue
                await room.acquire()
                if (now := time_ns()) - saved_ns > _SAVE_EVERY_NS:
                    saved_ns = now
                    self.keep(batch)
                if batch.cancelling_ns or now - batch.created_ns > LIFE_NS:
                    room.release()
                    kind = "cancelled" if batch.cancelling_ns else "expired"
                    self._settle(batch, dialect, Outcome(line.custom_id, kind, 0, "", b""))
                else:
                    task = group.create_task(self._one(batch, dialect, line))
                    task.add_done_callback(lambda _: room.release())
        batch.finalizing_ns = time_ns()
        await asyncio.to_thread(dialect.close, batch)
        batch.status = "cancelled" if batch.cancelling_ns else "expired" if batch.expired else "completed"

    async def _one(self, batch: Batch, dialect: Dialect, line: Line) -> None:
        trace = f"plm-{secrets.token_hex(6)}-1"
        try:
            body = await self._answer(batch, dialect, line, trace)
            outcome = Outcome(line.custom_id, "succeeded", 200, trace, body)
        except BlazarError as error:
            outcome = _errored(batch, line, trace, error)
        except Exception:  # noqa: BLE001  (one line's fault is no other's)
            _log.exception("batch %s, line '%s'", batch.id, line.custom_id)
            outcome = _errored(batch, line, trace, Internal(trace))
        if not self._leaving:
            self._settle(batch, dialect, outcome)

    async def _answer(self, batch: Batch, dialect: Dialect, line: Line, trace: str) -> bytes:
        """A line in the name of the batch's key. Nobody waits, so it waits for the key's budget."""
        while True:
            key = self._node.keys.named(batch.owner) if batch.owner else None
            if key is None and batch.owner and self._node.keys.on:
                raise Unauthorized
            errand = Errand(trace, {b"x-blazar-priority": b"low"}, key, f"/v1/batches/{batch.id}")
            try:
                with self._register.during(errand):
                    return await dialect.answer(errand, line)
            except RateLimited as error:
                if batch.cancelling_ns or time_ns() - batch.created_ns > LIFE_NS:
                    raise
                wait_s = error.retry_after or 1.0
            except asyncio.CancelledError:
                # One that was ended by hand is answered with why; the others go with the daemon.
                if errand.refusal is None:
                    raise
                raise errand.refusal from None
            await asyncio.sleep(min(wait_s, 60))

    def _settle(self, batch: Batch, dialect: Dialect, outcome: Outcome) -> None:
        dialect.write(batch, outcome)
        setattr(batch, outcome.kind, getattr(batch, outcome.kind) + 1)


def _errored(batch: Batch, line: Line, trace: str, error: BlazarError) -> Outcome:
    body = msgspec.json.encode(errors.body(error, batch.dialect, trace))
    return Outcome(line.custom_id, "errored", error.status, trace, body)


async def answer_text(node: Node, errand: Errand, line: Line) -> bytes:
    """The answer to a line that asks for text. Raises BadRequest and what the engine's way raises."""
    inbound = await parse(node, line.route, line.body)
    if inbound.stream:
        raise BadRequest("A line of a batch is not streamed; leave out stream.", param="stream")
    return await run(node, errand, inbound)


def append(path: Path, value: object) -> None:
    """A line of JSON at the end of a file."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(value) + b"\n")


def ids_in(path: Path) -> set[str]:
    """The ``custom_id`` of every whole line; a last one that a kill cut off is taken away."""
    found: set[str] = set()
    if not path.exists():
        return found
    with path.open("r+b") as file:
        good = 0
        for raw in file:
            if not raw.endswith(b"\n"):
                break
            found.add(msgspec.json.decode(raw, type=_Named).custom_id)
            good += len(raw)
        file.truncate(good)
    return found


class _Named(msgspec.Struct):
    custom_id: str
