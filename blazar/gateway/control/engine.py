"""What an engine answers by itself: ``/slots``, ``/props``, ``/tokenize``, ``/detokenize``, ``/apply-template``.

The model is the one that the request names, or the only one loaded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from blazar.errors import BadRequest, NotFound
from blazar.gateway.again import once_more
from blazar.gateway.body import typed, whole
from blazar.gateway.call import call
from blazar.gateway.decode import decoded
from blazar.gateway.due import charge, chosen
from blazar.gateway.turn import enter

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.gateway.context import Context
    from blazar.node import Node
    from blazar.supervisor.instance import Instance


class _Named(msgspec.Struct):
    model: str = ""
    stream: bool = False


class _Error(msgspec.Struct):
    message: str = ""


class _Failed(msgspec.Struct):
    error: _Error


def _words(answer: bytes) -> str:
    """What an engine says of a request that it refuses. It answers wrong ones with 500 as well, and lives on."""
    try:
        return decoded(answer, _Failed).error.message.rstrip(".") or "it does not say why"
    except msgspec.DecodeError:
        return "it does not say why"


class EngineTool:
    """A POST that the engine answers without generating; the model is loaded when it is not."""

    def __init__(self, node: Node, path: str) -> None:
        self._node = node
        self._path = path

    async def on_post(self, req: Request, resp: Response) -> None:
        """The engine's own answer."""
        node, context = self._node, req.scope["blazar"]
        body = await whole(node, req)
        asked = typed(body, _Named, self._path)
        model = chosen(node, context, wanted(node, req, asked.model))
        context.watch_client()
        charge(context, 0)

        async def attempt() -> tuple[int, str, bytes]:
            held = await node.fleet.ensure_ready(model)
            context.finally_do(partial(held.release, None))
            await self._before(context, held.instance, asked)
            return await call(node, context, held.instance, "POST", self._path, body)

        status, content_type, answer = await once_more(context, attempt)
        if status >= 400:
            raise BadRequest(f"The engine does not take this: {_words(answer)}.")
        resp.status = status
        resp.content_type = content_type
        resp.data = answer

    async def _before(self, context: Context, instance: Instance, asked: _Named) -> None:
        """Nothing: what these routes do takes no place."""


class Infill(EngineTool):
    """Fills in a middle, in the engine's own words, behind everybody who came before."""

    def __init__(self, node: Node) -> None:
        super().__init__(node, "/infill")

    async def _before(self, context: Context, instance: Instance, asked: _Named) -> None:
        if asked.stream:
            raise BadRequest(
                "This route answers in one piece. /v1/completions and /api/generate with a suffix stream.",
                param="stream",
            )
        await enter(self._node, context, instance)


class EngineView:
    """A GET that the engine answers; it never loads a model."""

    def __init__(self, node: Node, path: str) -> None:
        self._node = node
        self._path = path

    async def on_get(self, req: Request, resp: Response) -> None:
        """The engine's own answer."""
        context = req.scope["blazar"]
        instance = self._node.fleet.loaded(chosen(self._node, context, wanted(self._node, req)).name)
        if instance is None:
            raise NotFound("model loaded under that name")
        status, content_type, body = await call(self._node, context, instance, "GET", self._path)
        resp.status = status
        resp.content_type = content_type
        resp.data = body


def wanted(node: Node, req: Request, named: str = "") -> str:
    """The model's name: from the header, the query, ``named`` in the body, or the only one loaded."""
    asked = req.get_header("x-blazar-model") or req.get_param("model") or named
    if asked:
        return asked
    loaded = [view.model.name for view in node.fleet.snapshot()]
    if len(loaded) == 1:
        return loaded[0]
    if not loaded:
        raise NotFound("loaded model")
    raise BadRequest(f"Several models are loaded; say which with ?model=: {', '.join(loaded)}.", param="model")
