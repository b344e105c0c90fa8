"""``/api/explain``: which build runs a model and why, what each other one lacks, and where the model would go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from blazar.errors import BadRequest
from blazar.memory.layouts import HOST

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.models.catalogue import Model
    from blazar.node import Node


class Explain:
    """For the model in the query."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """``place`` is left out where no build can run it. Raises ModelNotFound."""
        name = req.get_param("model") or ""
        if not name:
            raise BadRequest("Say which: ?model=NAME", param="model")
        model = self._node.catalogue.find(name)
        found = await self._node.fleet.outlook.explain(model)
        resp.media = {"model": model.name, "format": model.format, **msgspec.to_builtins(found)}
        if found.tag:
            resp.media["place"] = await self._place(model)

    async def _place(self, model: Model) -> dict[str, Any]:
        outlook = self._node.fleet.outlook
        budget = outlook.budget()
        layouts, measured = await outlook.estimate(model, budget)
        best = layouts[0]
        fits = all(held <= budget.get(pool, 0) for pool, held in best.need.items())
        where = "GPUs" if len(best.devices) > 1 else "a GPU"
        layers = f"{best.layers} of its layers go" if best.layers > 0 else "it goes"
        words = f"{layers} onto {where}" if best.devices else "it goes into main memory"
        return {
            "why": words if fits else f"{words}, where there is not enough room for it",
            "fits": fits,
            "need": best.total,
            "memory": best.need.get(HOST, 0),
            "gpus": {pool: held for pool, held in best.need.items() if pool},
            "measured": measured,
        }
