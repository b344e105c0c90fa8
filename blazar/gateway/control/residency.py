"""``/api/evict``, ``/api/warm`` and ``/api/reset``: who is in memory, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blazar.errors import Conflict, NotFound
from blazar.gateway.body import Named, typed, whole
from blazar.gateway.turn import asked_context

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node


class _Named(Named):
    wait: bool = False


class Evict:
    """Takes a model out of memory."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Gone when this is answered. One that is answering somebody stays, unless ``wait`` says to wait for that.
        Raises Conflict.
        """
        asked = typed(await whole(self._node, req), _Named, req.path)
        model = self._node.catalogue.find(asked.wanted)
        fleet = self._node.fleet
        if not any(view.name == model.name for view in fleet.snapshot()):
            raise NotFound(f"'{model.name}' in memory")
        if not await fleet.unload(model.name, "asked for over /api/evict"):
            if not asked.wait:
                raise Conflict(f"'{model.name}' is in use; it leaves when that is over. Say wait to wait for it.")
            req.scope["blazar"].watch_client()
            if (instance := fleet.loaded(model.name)) is not None:
                # Whoever comes now waits for the next one, or it would never be idle.
                fleet.drain(instance, "asked for over /api/evict")
            await fleet.gone(model.name)
        resp.media = {"model": model.name, "evicted": True}


class Warm:
    """Brings a model into memory."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """At once answered, or with ``wait`` when it is there. Raises what a load raises."""
        asked = typed(await whole(self._node, req), _Named, req.path)
        context = req.scope["blazar"]
        model = self._node.catalogue.find(asked.wanted)
        size = asked_context(context)
        if not asked.wait:
            self._node.warm(model, size)
            resp.media = {"status": "ok", "model": model.name}
            return
        context.watch_client()
        held = await self._node.fleet.ensure_ready(model, context=size)
        context.finally_do(held.release)
        resp.media = {
            "status": "ok",
            "model": model.name,
            "engine": held.instance.kind,
            "context": held.instance.context,
            "load_ms": held.instance.load_duration_ns // 1_000_000,
        }


class Reset:
    """Forgets the crashes of a model."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """It may be started again at once."""
        asked = typed(await whole(self._node, req), _Named, req.path)
        model = self._node.catalogue.find(asked.wanted)
        self._node.fleet.reset(model.name)
        resp.media = {"model": model.name, "reset": True}
