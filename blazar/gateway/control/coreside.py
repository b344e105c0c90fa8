"""``/api/coreside``: which models fit in memory together, and who would come for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from blazar.errors import BlazarError
from blazar.memory.layouts import HOST
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
        budget = self._node.fleet.outlook.budget()
        wishes, facts, lost = list[Wish](), dict[str, dict[str, Any]](), list[dict[str, Any]]()
        for model in {model.name: model for model in models}.values():
            try:
                layouts, measured = await self._node.fleet.outlook.estimate(model, budget)
            except BlazarError as error:
                lost.append({"name": model.name, "act": "unknown", "why": error.message})
                continue
            view = running.get(model.name)
            ways, used = tuple(layout.need for layout in layouts), view.last_used_ns if view else 0
            wishes.append(Wish(model.name, ways, used, model.name in pinned))
            facts[model.name] = {"measured": measured, "loaded": view is not None, "pinned": model.name in pinned}
        plan = [{**msgspec.structs.asdict(place), **facts[place.name]} for place in together(wishes, budget)]
        main = budget.pop(HOST, 0)
        resp.media = {"budget": main, "gpus": budget, "models": [*plan, *lost]}
