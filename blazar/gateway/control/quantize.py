"""``/api/quantize``: a smaller model of one that is here, with its steps told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from blazar.engines.quantize import LOSS, Wanted, quantize
from blazar.errors import BadRequest
from blazar.gateway.body import typed, whole
from blazar.gateway.work import NDJSON, Work
from blazar.models.progress import Listener, Progress

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.engines.quantize import Outcome
    from blazar.node import Node


class _Asked(msgspec.Struct):
    """As :class:`Wanted` has them, and the model that it is made of."""

    model: str
    type: str
    name: str = ""
    again: bool = False
    imatrix: str = ""
    gate: bool = True
    loss: float = LOSS
    text: str = ""


class Quantize:
    """Makes a model."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """A line for each step, and one for what came of it. Raises BadRequest, ModelNotFound."""
        asked = typed(await whole(self._node, req), _Asked, req.path)
        if not 0 <= asked.loss <= 100:
            raise BadRequest("Expected a part between 0 and 100, such as 0.1 for a tenth.", param="loss")
        node = self._node
        model = await asyncio.to_thread(node.catalogue.find, asked.model)
        wanted = Wanted(**{name: getattr(asked, name) for name in Wanted.__struct_fields__})
        context = req.scope["blazar"]
        context.watch_client()

        def job(listener: Listener) -> Outcome:
            def tell(what: str) -> None:
                listener(Progress("test" if what.startswith("how well") else "copy", what))

            made = quantize(node.library, model, wanted, node.builds.builds(), tell)
            node.catalogue.refresh()
            return made

        work = Work(node, job, context.trace)
        context.finally_do(work.stop)
        context.streaming = True
        resp.content_type = NDJSON
        resp.stream = work.lines(
            "looking", _step, lambda outcome: {"status": "success", **msgspec.to_builtins(outcome)}
        )


def _step(step: Progress) -> dict[str, object]:
    return {"status": "measuring" if step.phase == "test" else "making", "what": step.what}
