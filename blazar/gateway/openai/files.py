"""``/v1/files``: what clients upload, and what batches write."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

import falcon

from blazar.errors import BadRequest, NotFound, PayloadTooLarge
from blazar.gateway.due import mine
from blazar.models.files import HashingWriter, ensure_room, full_disk_told
from blazar.store import FileRow

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.gateway.errand import Errand
    from blazar.node import Node

_PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_MOST = 512 * 1024 * 1024
_BLOCK = 1 << 20
_BATCH_LIFE_NS = 30 * 86_400 * 1_000_000_000
_ORDERS = ("asc", "desc")


class Files:
    """All of them."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Take one in, as a form with ``file`` and ``purpose``."""
        kind = (req.content_type or "").partition(";")[0].strip().lower()
        if kind != "multipart/form-data":
            raise BadRequest("A file comes as multipart/form-data with the fields file and purpose.", param="file")
        self._sweep()
        id = f"file-{secrets.token_hex(12)}"  # noqa: A001
        path = place(self._node, id)
        try:
            row = await self._receive(req, id, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self._node.store.files.put(row)
        resp.media = view(row)

    def _sweep(self) -> None:
        """What is past its time leaves."""
        now = time_ns()
        for row in self._node.store.files.list():
            if row.expires_ns and row.expires_ns < now:
                self._node.store.files.delete(row.id)
                place(self._node, row.id).unlink(missing_ok=True)

    async def _receive(self, req: Request, id: str, path: Path) -> FileRow:  # noqa: A002
        purpose, filename, size = "", "", -1
        try:
            async for part in await req.get_media():
                if part.name == "purpose":
                    purpose = (await part.text).strip()
                elif part.name == "file":
                    filename = part.filename or "upload"
                    size = await self._write(part.stream, path)
                else:
                    await part.stream.exhaust()
        except falcon.MediaMalformedError as error:
            raise BadRequest(f"The form cannot be read: {error.description}", param="file") from None
        if size < 0:
            raise BadRequest("This field is missing; expected a file.", param="file")
        if purpose not in _PURPOSES:
            raise BadRequest(f"Expected one of {', '.join(_PURPOSES)}, found '{purpose[:40]}'.", param="purpose")
        now = time_ns()
        expires = now + _BATCH_LIFE_NS if purpose == "batch" else 0
        return FileRow(id, now, expires, filename[:255], purpose, size, req.scope["blazar"].owner)

    async def _write(self, stream: Any, path: Path) -> int:
        path.parent.mkdir(parents=True, exist_ok=True)
        ensure_room(path.parent, 0, path.name)
        with path.open("wb") as file, full_disk_told(path.parent, path.name, lambda: 0):
            writer = HashingWriter(file)
            while piece := await stream.read(_BLOCK):
                if writer.count + len(piece) > _MOST:
                    raise PayloadTooLarge(_MOST)
                await asyncio.to_thread(writer.write, piece)
            return writer.count

    async def on_get(self, req: Request, resp: Response) -> None:
        """A page, the newest first unless ``order=asc``."""
        context = req.scope["blazar"]
        rows = [row for row in self._node.store.files.list(req.get_param("purpose")) if mine(context, row.owner)]
        resp.media = page(req, [view(row) for row in rows], most=10_000, usual=10_000)


class File:
    """One of them."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002  (the route's word)
        """What it is."""
        resp.media = view(find(self._node, id, req.scope["blazar"]))

    async def on_delete(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002
        """Let it go."""
        find(self._node, id, req.scope["blazar"])
        self._node.store.files.delete(id)
        place(self._node, id).unlink(missing_ok=True)
        resp.media = {"id": id, "object": "file", "deleted": True}


class Content:
    """Its bytes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002
        """As they came."""
        row = find(self._node, id, req.scope["blazar"])
        resp.content_type = "application/octet-stream"
        resp.content_length = row.bytes
        resp.stream = _blocks(place(self._node, row.id))


async def _blocks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _BLOCK):
            yield piece


def place(node: Node, id: str) -> Path:  # noqa: A002
    """Where the bytes of a file lie."""
    return node.paths.files / id


def find(node: Node, id: str, errand: Errand) -> FileRow:  # noqa: A002
    """The file. Raises NotFound, also where it is another key's; one that is past its time is gone."""
    row = node.store.files.get(id)
    if row is None or (row.expires_ns and row.expires_ns < time_ns()) or not mine(errand, row.owner):
        raise NotFound(f"file '{id[:80]}'")
    return row


def view(row: FileRow) -> dict[str, object]:
    """As clients see it."""
    return {
        "id": row.id,
        "object": "file",
        "bytes": row.bytes,
        "created_at": row.created_ns // 1_000_000_000,
        "expires_at": row.expires_ns // 1_000_000_000 or None,
        "filename": row.filename,
        "purpose": row.purpose,
        "status": "processed",
        "status_details": None,
    }


def page(req: Request, newest_first: list[dict[str, object]], *, most: int, usual: int) -> dict[str, object]:
    """A page of a list, by ``after``, ``limit`` and ``order``. Raises BadRequest, NotFound."""
    order = req.get_param("order") or "desc"
    if order not in _ORDERS:
        raise BadRequest(f"The order is asc or desc, not '{order[:20]}'.", param="order")
    items = newest_first if order == "desc" else newest_first[::-1]
    if (after := req.get_param("after")) is not None:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise NotFound(f"'{after[:80]}' in the list", param="after")
        items = items[ids.index(after) + 1 :]
    limit = req.get_param_as_int("limit", min_value=1, max_value=most, default=usual)
    shown = items[:limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(items) > limit,
    }
