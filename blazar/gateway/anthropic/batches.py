"""``/v1/messages/batches``: many requests in one body, answered when nobody waits."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from blazar.clock import rfc3339
from blazar.errors import BadRequest, Conflict, PayloadTooLarge
from blazar.gateway.batches import (
    LIFE_NS,
    MOST_BYTES,
    MOST_LINES,
    Batch,
    Batches,
    Line,
    Outcome,
    answer_text,
    append,
    ids_in,
)
from blazar.gateway.body import typed
from blazar.gateway.decode import decoded

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.gateway.errand import Errand
    from blazar.node import Node

_DIALECT = "anthropic"
_BLOCK = 1 << 18


class _Request(msgspec.Struct):
    custom_id: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    params: msgspec.Raw


class _Asked(msgspec.Struct):
    requests: Annotated[list[_Request], Meta(min_length=1, max_length=MOST_LINES)]


class AnthropicLines:
    """The requests in a file of ours; outcomes in another."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._folder = node.paths.files

    def source(self, batch: Batch) -> Path:
        """The requests."""
        return self._folder / f"{batch.id}.in"

    def results(self, batch: Batch) -> Path:
        """The outcomes."""
        return self._folder / f"{batch.id}.out"

    def lines(self, batch: Batch) -> Iterator[Line]:
        """As they came."""
        with self.source(batch).open("rb") as file:
            for raw in file:
                line = decoded(raw, _Request)
                yield Line(line.custom_id, "anthropic.messages", bytes(line.params))

    def finished(self, batch: Batch) -> set[str]:
        """Those in the file; they are counted anew."""
        found = ids_in(self.results(batch))
        counts = dict.fromkeys(("succeeded", "errored", "canceled", "expired"), 0)
        if found:
            for raw in self.results(batch).read_bytes().splitlines():
                counts[decoded(raw, _Result).result.type] += 1
        batch.succeeded, batch.errored, batch.cancelled, batch.expired = counts.values()
        return found

    async def answer(self, errand: Errand, line: Line) -> bytes:
        """A message."""
        return await answer_text(self._node, errand, line)

    def write(self, batch: Batch, outcome: Outcome) -> None:
        """Append it."""
        result: dict[str, object] = {"type": "canceled" if outcome.kind == "cancelled" else outcome.kind}
        if outcome.kind == "succeeded":
            result["message"] = msgspec.Raw(outcome.body)
        elif outcome.kind == "errored":
            result["error"] = msgspec.Raw(outcome.body)
        append(self.results(batch), {"custom_id": outcome.custom_id, "result": result})

    def close(self, batch: Batch) -> None:
        """Nothing but the outcomes is needed any more."""
        self.source(batch).unlink(missing_ok=True)


class _Kind(msgspec.Struct):
    type: str


class _Result(msgspec.Struct):
    result: _Kind


class MessageBatches:
    """All of them."""

    def __init__(self, node: Node, batches: Batches, lines: AnthropicLines) -> None:
        self._node = node
        self._batches = batches
        self._lines = lines

    async def on_post(self, req: Request, resp: Response) -> None:
        """Keep the requests, and begin."""
        body: bytes = await req.stream.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise PayloadTooLarge(MOST_BYTES)
        asked = typed(body, _Asked, req.path)
        ids = [one.custom_id for one in asked.requests]
        if len(set(ids)) < len(ids):
            twice = next(one for place, one in enumerate(ids) if one in ids[:place])
            raise BadRequest(f"The custom_id '{twice}' is there more than once.", param=f"requests[{ids.index(twice)}]")
        batch = Batch(
            id=f"msgbatch_{secrets.token_hex(12)}",
            dialect=_DIALECT,
            owner=req.scope["blazar"].owner,
            total=len(ids),
            created_ns=time_ns(),
        )
        await asyncio.to_thread(self._keep, batch, asked)
        self._batches.start(batch)
        resp.media = _view(batch, req)

    def _keep(self, batch: Batch, asked: _Asked) -> None:
        path = self._lines.source(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for one in asked.requests:
                # On one line, whatever line ends its JSON had.
                params = msgspec.json.format(bytes(one.params), indent=-1)
                file.write(msgspec.json.encode({"custom_id": one.custom_id, "params": msgspec.Raw(params)}) + b"\n")

    async def on_get(self, req: Request, resp: Response) -> None:
        """A page, the newest first, by ``after_id``, ``before_id`` and ``limit``."""
        shown = [_view(batch, req) for batch in self._batches.list(_DIALECT, req.scope["blazar"])]
        ids = [batch["id"] for batch in shown]
        if (after := req.get_param("after_id")) in ids:
            shown = shown[ids.index(after) + 1 :]
        elif (before := req.get_param("before_id")) in ids:
            shown = shown[: ids.index(before)]
        limit = req.get_param_as_int("limit", min_value=1, max_value=1000, default=20)
        page = shown[:limit]
        resp.media = {
            "data": page,
            "has_more": len(shown) > limit,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
        }


class MessageBatch:
    """One of them."""

    def __init__(self, batches: Batches, lines: AnthropicLines) -> None:
        self._batches = batches
        self._lines = lines

    async def on_get(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002  (the route's word)
        """How far it is."""
        resp.media = _view(self._batches.get(id, _DIALECT, req.scope["blazar"]), req)

    async def on_delete(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002
        """Let it go, once it is over."""
        batch = self._batches.get(id, _DIALECT, req.scope["blazar"])
        self._batches.delete(id, _DIALECT, req.scope["blazar"])
        for path in (self._lines.source(batch), self._lines.results(batch)):
            path.unlink(missing_ok=True)
        resp.media = {"id": id, "type": "message_batch_deleted"}


class CancelMessageBatch:
    """Stops one."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    async def on_post(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002
        """What is being answered is finished; nothing further is begun."""
        resp.media = _view(self._batches.cancel(id, _DIALECT, req.scope["blazar"]), req)


class MessageBatchResults:
    """What became of each request."""

    def __init__(self, batches: Batches, lines: AnthropicLines) -> None:
        self._batches = batches
        self._lines = lines

    async def on_get(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002
        """A line for each, in the order in which they ended. Raises Conflict before all have."""
        batch = self._batches.get(id, _DIALECT, req.scope["blazar"])
        if not batch.over:
            raise Conflict(f"The batch '{id[:80]}' still runs; its results come when it has ended.")
        resp.content_type = "application/x-jsonl"
        resp.stream = _blocks(self._lines.results(batch))


async def _blocks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _BLOCK):
            yield piece


def _view(batch: Batch, req: Request) -> dict[str, Any]:
    """As clients see it: until it ends, every request counts as being processed."""
    ended = batch.over
    counts = {
        "processing": 0 if ended else batch.total,
        "succeeded": batch.succeeded if ended else 0,
        "errored": batch.errored if ended else 0,
        "canceled": batch.cancelled if ended else 0,
        "expired": batch.expired if ended else 0,
    }
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if ended else "canceling" if batch.cancelling_ns else "in_progress",
        "request_counts": counts,
        "created_at": rfc3339(batch.created_ns),
        "expires_at": rfc3339(batch.created_ns + LIFE_NS),
        "ended_at": rfc3339(batch.ended_ns) if ended else None,
        "archived_at": None,
        "cancel_initiated_at": rfc3339(batch.cancelling_ns) if batch.cancelling_ns else None,
        "results_url": f"{req.prefix}/v1/messages/batches/{batch.id}/results" if ended else None,
    }
