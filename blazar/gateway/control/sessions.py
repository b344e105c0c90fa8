"""``/api/session`` and ``/api/sessions``: what keeps models in memory, and what engines have read on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from blazar.clock import rfc3339
from blazar.errors import BadRequest, NotFound
from blazar.gateway.body import typed, whole
from blazar.gateway.exchange import runs

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.models.catalogue import Model
    from blazar.models.checkpoints import Checkpoint
    from blazar.node import Node

_LONGEST = 128


class _Action(msgspec.Struct):
    action: Literal["close", "save", "restore", "rm"]
    session: str = ""
    model: str = ""
    name: str = ""


class Sessions:
    """Those that keep a model from making room for others."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """The one whose model goes first, first."""
        resp.media = {"sessions": self._pins()}

    def _pins(self, model: str = "") -> list[dict[str, Any]]:
        return [
            {"session": view.id, "model": view.model, "expires_in_s": round(view.left_s, 1)}
            for view in self._node.fleet.sessions.views()
            if model in {"", view.model}
        ]


class Session(Sessions):
    """One of them; and the checkpoints of a model."""

    async def on_get(self, req: Request, resp: Response) -> None:
        """Of all models, or of the one in the query: sessions, and with a model its checkpoints, the oldest first."""
        named = req.get_param("model")
        if not named:
            resp.media = {"sessions": self._pins()}
            return
        model = self._model(named)
        checkpoints = [_view(one) for one in self._node.fleet.bank.of(model.name)]
        resp.media = {"model": model.name, "sessions": self._pins(model.name), "checkpoints": checkpoints}

    async def on_post(self, req: Request, resp: Response) -> None:
        """``close``: a session keeps nothing any more. ``save``, ``restore`` and ``rm``: a checkpoint of a model by its
        name. Raises NotFound, BadRequest, and what a load or an engine raises.
        """
        asked = typed(await whole(self._node, req), _Action, req.path)
        if asked.action == "close":
            if not self._node.fleet.sessions.close(asked.session):
                raise NotFound(f"session '{asked.session[:80]}'")
            resp.media = {"session": asked.session, "closed": True}
            return
        model = self._model(asked.model)
        if not 0 < len(asked.name) <= _LONGEST or not asked.name.isprintable():
            raise BadRequest(f"Expected a name of 1 to {_LONGEST} characters.", param="name")
        if asked.action == "rm":
            self._node.fleet.bank.remove(model.name, asked.name)
            resp.media = {"model": model.name, "name": asked.name, "removed": True}
            return
        done = await (self._save if asked.action == "save" else self._restore)(req, model, asked.name)
        resp.media = {**_view(done), f"{asked.action}d": True}

    async def _save(self, req: Request, model: Model, name: str) -> Checkpoint:
        if self._node.fleet.loaded(model.name) is None:
            raise NotFound(f"'{model.name}' in memory")
        return await self._node.fleet.bank.save(await self._instance(req, model), name)

    async def _restore(self, req: Request, model: Model, name: str) -> Checkpoint:
        if all(one.name != name for one in self._node.fleet.bank.of(model.name)):
            raise NotFound(f"checkpoint '{name[:80]}' of '{model.name}'")
        return await self._node.fleet.bank.restore(await self._instance(req, model), name)

    async def _instance(self, req: Request, model: Model) -> Any:
        context = req.scope["blazar"]
        context.watch_client()
        held = await self._node.fleet.ensure_ready(model)
        context.finally_do(held.release)
        return held.instance

    def _model(self, named: str) -> Model:
        """The one whose process answers for ``named``."""
        if not named:
            raise BadRequest("model is required", param="model")
        model = runs(self._node, self._node.catalogue.find(named))
        if "completion" not in model.capabilities:
            raise BadRequest(f"'{model.name}' holds no conversations.", param="model")
        return model


def _view(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "name": checkpoint.name,
        "model": checkpoint.model,
        "size": checkpoint.size,
        "tokens": sum(one.tokens for one in checkpoint.slots),
        "slots": len(checkpoint.slots),
        "context": checkpoint.context,
        "cache_type": checkpoint.cache_type,
        "build": checkpoint.build,
        "saved_at": rfc3339(checkpoint.saved_ns),
    }
