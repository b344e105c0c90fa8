"""``/api/coreside``: which models fit in memory together, and who would come for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from blazar.errors import BlazarError
from blazar.memory.placement import Wish, together

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node


class Coreside:
    """A plan for the models in the query, or for all."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """Those in memory first, then as they were used last. Raises ModelNotFound."""
        catalogue = self._node.catalogue
        named = req.get_param_as_list("model") or []
        models = [catalogue.find(name) for name in named] if named else list(catalogue.list())
        running = {view.name: view for view in self._node.fleet.snapshot()}
        pinned = frozenset(self._node.config.residency.pinned)
        wishes, facts, lost = list[Wish](), dict[str, dict[str, Any]](), list[dict[str, Any]]()
        for model in {model.name: model for model in models}.values():
            try:
                need, measured = await self._node.fleet.outlook.estimate(model)
            except BlazarError as error:
                lost.append({"name": model.name, "act": "unknown", "why": error.message})
                continue
            view = running.get(model.name)
            wishes.append(Wish(model.name, need, view.last_used_ns if view else 0, model.name in pinned))
            facts[model.name] = {"measured": measured, "loaded": view is not None, "pinned": model.name in pinned}
        budget = self._node.fleet.outlook.budget()
        plan = [{**msgspec.structs.asdict(place), **facts[place.name]} for place in together(wishes, budget)]
        resp.media = {"budget": budget, "models": [*plan, *lost]}
