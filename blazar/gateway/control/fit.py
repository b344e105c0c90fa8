"""``/api/fit``: whether a model fits this machine, in each of its quantisations, before any of it is fetched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from blazar.errors import BadRequest
from blazar.memory import fit

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node

_DIGITS = 12
# More than anybody hears.
_EXACT = frozenset({"F32", "F16", "BF16"})


class Fit:
    """The verdicts on what the query's ``model`` may mean."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """``context`` is what is wanted at least, ``cache_type`` that of the cache. Raises what the sources raise."""
        target = req.get_param("model") or ""
        if not target:
            raise BadRequest("Say which: ?model=NAME", param="model")
        wanted = req.get_param("context") or "0"
        if not wanted.isdecimal() or len(wanted) > _DIGITS:
            raise BadRequest("A context is a whole number of tokens.", param="context")
        cache_type = req.get_param("cache_type") or self._node.config.engine.cache_type
        found, machine = await asyncio.gather(
            asyncio.to_thread(self._node.library.candidates, target), self._node.fleet.outlook.machine()
        )
        verdicts = await asyncio.to_thread(
            lambda: [
                fit.judge(one.header, machine, context=int(wanted), cache_type=cache_type, projector=one.projector)
                for one in found
            ]
        )
        exact = [place for place, one in enumerate(found) if one.quantization in _EXACT]
        best = fit.best(verdicts, [one.size for one in found], exact)
        first = found[0].header
        resp.media = {
            "model": target,
            "architecture": first.architecture,
            "parameters": first.parameters,
            "memory": machine.host,
            "gpus": {device.id: device.reach for device in machine.devices},
            "cache_type": cache_type,
            "choices": [
                {
                    "target": one.target,
                    "quantization": one.quantization,
                    "size": one.size,
                    "here": one.here,
                    "exact": one.exact,
                    "recommended": place == best,
                    **msgspec.structs.asdict(verdict),
                }
                for place, (one, verdict) in enumerate(zip(found, verdicts, strict=True))
            ],
        }
