"""Engine utilities: ``/slots`` and ``/props`` of the model that the request names, or of the only one loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blazar.errors import BadRequest, NotFound
from blazar.gateway.exchange import call

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node


class EngineView:
    """A GET that the engine answers; it never loads a model."""

    def __init__(self, node: Node, path: str) -> None:
        self._node = node
        self._path = path

    async def on_get(self, req: Request, resp: Response) -> None:
        """The engine's own answer."""
        context = req.scope["blazar"]
        instance = self._node.fleet.loaded(self._name(req))
        if instance is None:
            raise NotFound("model loaded under that name")
        status, content_type, body = await call(self._node, context, instance, "GET", self._path)
        resp.status = status
        resp.content_type = content_type
        resp.data = body

    def _name(self, req: Request) -> str:
        asked = req.get_header("x-blazar-model") or req.get_param("model")
        if asked:
            return self._node.catalogue.find(asked).name
        loaded = [view.model.name for view in self._node.fleet.snapshot()]
        if len(loaded) == 1:
            return loaded[0]
        if not loaded:
            raise NotFound("loaded model")
        raise BadRequest(f"Several models are loaded; say which with ?model=: {', '.join(loaded)}.", param="model")
