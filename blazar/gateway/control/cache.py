"""``/api/cache``: what the semantic cache holds, and has done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node


class Cache:
    """All of it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """Its settings, what it holds in numbers and bytes, and how often what happened since the start."""
        answers, settings = self._node.answers, self._node.config.semantic_cache
        resp.media = {
            **msgspec.structs.asdict(settings),
            "entries": len(answers),
            "bytes": answers.size,
            **msgspec.structs.asdict(answers.counts),
        }

    async def on_delete(self, req: Request, resp: Response) -> None:
        """Forget every answer."""
        forgotten = len(self._node.answers)
        self._node.answers.forget()
        resp.media = {"forgotten": forgotten}
