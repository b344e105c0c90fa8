"""``/v1/models``: one list that OpenAI's and Anthropic's clients both read.

The two dialects share the path. Each row carries both sets of fields, so that no header has to decide; Anthropic's
paging fields stand beside OpenAI's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blazar.clock import rfc3339
from blazar.gateway.due import chosen, visible

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.models.catalogue import Model
    from blazar.node import Node


class Models:
    """The list."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response) -> None:
        """Every model in the catalogue."""
        rows = [_row(model) for model in visible(req.scope["blazar"], self._node.catalogue.list())]
        resp.media = {
            "object": "list",
            "data": rows,
            "has_more": False,
            "first_id": rows[0]["id"] if rows else None,
            "last_id": rows[-1]["id"] if rows else None,
        }


class OneModel:
    """One row of it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response, name: str) -> None:
        """One model."""
        resp.media = _row(chosen(self._node, req.scope["blazar"], name))


def _row(model: Model) -> dict[str, object]:
    return {
        "id": model.name,
        "object": "model",
        "created": model.added_ns // 1_000_000_000,
        "owned_by": "blazar",
        "type": "model",
        "display_name": model.name,
        "created_at": rfc3339(model.added_ns),
        "max_input_tokens": model.context_length,
        "capabilities": list(model.capabilities),
    }
