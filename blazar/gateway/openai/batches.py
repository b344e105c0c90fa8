"""``/v1/batches``: many requests in a file, answered when nobody waits."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from time import time_ns
from typing import TYPE_CHECKING, Any

import msgspec

from blazar.errors import BadRequest
from blazar.gateway.batches import LIFE_NS, MOST_LINES, Batch, Batches, Line, Outcome, answer_text, append, ids_in
from blazar.gateway.body import typed, whole
from blazar.gateway.decode import decoded
from blazar.gateway.openai import files
from blazar.gateway.openai.vectors import embeddings
from blazar.store import FileRow

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.gateway.errand import Errand
    from blazar.node import Node

_VECTORS = "openai.embeddings"
_ROUTES = {
    "/v1/chat/completions": "openai.chat",
    "/v1/completions": "openai.text",
    "/v1/responses": "openai.responses",
    "/v1/embeddings": _VECTORS,
}
_SHOWN_FAULTS = 100
_DIALECT = "openai"


class _Line(msgspec.Struct):
    custom_id: str
    url: str
    body: msgspec.Raw
    method: str = "POST"


class _Asked(msgspec.Struct):
    input_file_id: str
    endpoint: str
    completion_window: str = "24h"
    metadata: dict[str, str] | None = None


class OpenaiLines:
    """Lines of an uploaded file; outcomes in two files, those that failed apart."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def lines(self, batch: Batch) -> Iterator[Line]:
        """As the check let them pass."""
        with files.place(self._node, batch.source).open("rb") as file:
            for raw in file:
                if raw.strip():
                    line = decoded(raw, _Line)
                    yield Line(line.custom_id, _ROUTES[line.url], bytes(line.body))

    def finished(self, batch: Batch) -> set[str]:
        """Those in either file."""
        good, bad = (ids_in(files.place(self._node, one)) for one in (batch.output, batch.errors))
        batch.succeeded = len(good)
        return good | bad

    async def answer(self, errand: Errand, line: Line) -> bytes:
        """Text, or vectors."""
        if line.route == _VECTORS:
            return msgspec.json.encode(await embeddings(self._node, errand, line.body, "/v1/embeddings"))
        return await answer_text(self._node, errand, line)

    def write(self, batch: Batch, outcome: Outcome) -> None:
        """Append to the file of its kind."""
        well = outcome.kind == "succeeded"
        value: dict[str, object] = {
            "id": f"batch_req_{secrets.token_hex(12)}",
            "custom_id": outcome.custom_id,
            "response": None,
            "error": None,
        }
        if outcome.body:
            value["response"] = {
                "status_code": outcome.status,
                "request_id": outcome.trace,
                "body": msgspec.Raw(outcome.body),
            }
        else:
            value["error"] = {"code": f"batch_{outcome.kind}", "message": f"The batch was {outcome.kind} before this."}
        path = files.place(self._node, batch.output if well else batch.errors)
        path.parent.mkdir(parents=True, exist_ok=True)
        append(path, value)

    def close(self, batch: Batch) -> None:
        """The files become files that clients can fetch; one that is empty is none."""
        for id, name in ((batch.output, "output"), (batch.errors, "errors")):  # noqa: A001
            path = files.place(self._node, id)
            if path.exists():
                size = path.stat().st_size
                row = FileRow(id, time_ns(), 0, f"{batch.id}_{name}.jsonl", "batch_output", size, batch.owner)
                self._node.store.files.put(row)


class BatchList:
    """All of them."""

    def __init__(self, node: Node, batches: Batches) -> None:
        self._node = node
        self._batches = batches

    async def on_post(self, req: Request, resp: Response) -> None:
        """Check the file, and begin. A file with faults makes a batch that failed, and says where they lie."""
        asked = typed(await whole(self._node, req), _Asked, req.path)
        if asked.endpoint not in _ROUTES:
            raise BadRequest(f"Expected one of {', '.join(_ROUTES)}.", param="endpoint")
        if asked.completion_window != "24h":
            raise BadRequest("The completion window is 24h.", param="completion_window")
        row = files.find(self._node, asked.input_file_id, req.scope["blazar"])
        if row.purpose != "batch":
            raise BadRequest(f"The file is for {row.purpose}, not for a batch.", param="input_file_id")
        total, faults = await asyncio.to_thread(self._check, row, asked.endpoint)
        batch = Batch(
            id=f"batch_{secrets.token_hex(12)}",
            dialect=_DIALECT,
            owner=req.scope["blazar"].owner,
            endpoint=asked.endpoint,
            source=row.id,
            metadata=asked.metadata,
            faults=faults,
            total=total,
            created_ns=time_ns(),
            output=f"file-{secrets.token_hex(12)}",
            errors=f"file-{secrets.token_hex(12)}",
        )
        if faults:
            batch.status, batch.ended_ns = "failed", time_ns()
            self._batches.keep(batch)
        else:
            self._batches.start(batch)
        resp.media = self._view(batch)

    async def on_get(self, req: Request, resp: Response) -> None:
        """A page, the newest first."""
        shown = [self._view(batch) for batch in self._batches.list(_DIALECT, req.scope["blazar"])]
        resp.media = files.page(req, shown, most=100, usual=20)

    def _view(self, batch: Batch) -> dict[str, object]:
        return view(self._node, batch)

    def _check(self, row: FileRow, endpoint: str) -> tuple[int, list[dict[str, Any]]]:
        """Lines in all, and what is wrong with them."""
        faults: list[dict[str, Any]] = []
        seen: set[str] = set()
        total = 0
        with files.place(self._node, row.id).open("rb") as file:
            for number, raw in enumerate(file, 1):
                if not raw.strip():
                    continue
                total += 1
                fault = _fault(raw, endpoint, seen)
                if fault is not None and len(faults) < _SHOWN_FAULTS:
                    code, message, param = fault
                    faults.append({"code": code, "message": message, "param": param, "line": number})
        if not total:
            faults.append({"code": "empty_file", "message": "The file has no request.", "param": None, "line": None})
        if total > MOST_LINES:
            message = f"The file has {total} requests; {MOST_LINES} are the most."
            faults.append({"code": "too_many_tasks", "message": message, "param": None, "line": None})
        return total, faults


def _fault(raw: bytes, endpoint: str, seen: set[str]) -> tuple[str, str, str | None] | None:
    try:
        line = decoded(raw, _Line)
    except msgspec.DecodeError as error:
        return "invalid_json_line", f"The line is no request: {error}.", None
    if line.custom_id in seen:
        return "duplicate_custom_id", f"The custom_id '{line.custom_id[:60]}' is there already.", "custom_id"
    seen.add(line.custom_id)
    if line.method != "POST":
        return "invalid_method", "The method is POST.", "method"
    if line.url != endpoint:
        return "mismatched_endpoint", f"The url is not the batch's endpoint, {endpoint}.", "url"
    return None


class OneBatch:
    """One of them."""

    def __init__(self, node: Node, batches: Batches) -> None:
        self._node = node
        self._batches = batches

    async def on_get(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002  (the route's word)
        """How far it is."""
        resp.media = view(self._node, self._batches.get(id, _DIALECT, req.scope["blazar"]))


class CancelBatch:
    """Stops one."""

    def __init__(self, node: Node, batches: Batches) -> None:
        self._node = node
        self._batches = batches

    async def on_post(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002
        """What is being answered is finished; nothing further is begun."""
        resp.media = view(self._node, self._batches.cancel(id, _DIALECT, req.scope["blazar"]))


def view(node: Node, batch: Batch) -> dict[str, object]:
    """As clients see it."""
    ended = _s(batch.ended_ns)
    there = [files.place(node, one).exists() for one in (batch.output, batch.errors)]
    shown = batch.over and batch.status != "failed"
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": {"object": "list", "data": batch.faults} if batch.faults else None,
        "input_file_id": batch.source,
        "completion_window": "24h",
        "status": batch.status,
        "output_file_id": batch.output if shown and there[0] else None,
        "error_file_id": batch.errors if shown and there[1] else None,
        "created_at": _s(batch.created_ns),
        "in_progress_at": _s(batch.begun_ns),
        "expires_at": _s(batch.created_ns + LIFE_NS),
        "finalizing_at": _s(batch.finalizing_ns),
        "completed_at": ended if batch.status == "completed" else None,
        "failed_at": ended if batch.status == "failed" else None,
        "expired_at": ended if batch.status == "expired" else None,
        "cancelling_at": _s(batch.cancelling_ns),
        "cancelled_at": ended if batch.status == "cancelled" else None,
        "request_counts": {
            "total": batch.total,
            "completed": batch.succeeded,
            "failed": batch.errored + batch.expired + batch.cancelled,
        },
        "metadata": batch.metadata,
    }


def _s(ns: int) -> int | None:
    return ns // 1_000_000_000 or None
