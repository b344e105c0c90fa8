"""``/health``, ``/healthz`` and ``/api/errors``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blazar import _native
from blazar.errors import catalogue

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node


class Health:
    """Whether the gateway answers, and with what behind it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """Always 200 while this process serves."""
        resp.media = {
            "status": "ok",
            "version": _native.VERSION,
            "models": len(self._node.catalogue.list()),
            "loaded": len(self._node.fleet.snapshot()),
            "answers_in_flight": self._node.relay.live,
            # How late the loop that answers all of this woke, last and at worst within a minute.
            "loop": {
                "lag_ms": round(self._node.pulse.lag_s * 1000, 1),
                "worst_lag_ms": round(self._node.pulse.worst_s * 1000, 1),
            },
        }


class Errors:
    """The catalogue of ``blazar_code``."""

    async def on_get(self, req: Request, resp: Response) -> None:
        """Every code with its status and meaning."""
        resp.media = {
            "errors": [
                {"blazar_code": code, "status": kind.status, "when": kind.summary} for code, kind in catalogue().items()
            ]
        }
