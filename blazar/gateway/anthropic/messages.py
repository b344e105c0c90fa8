"""``/v1/messages`` and ``/v1/messages/count_tokens``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blazar.gateway.exchange import answer, count_tokens, read

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node


class Messages:
    """A conversation's next turn."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Answer a conversation."""
        await answer(self._node, await read(self._node, "anthropic.messages", req), req, resp)


class CountTokens:
    """How many tokens a conversation has."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Count with the model's own template and tokenizer."""
        inbound = await read(self._node, "anthropic.count", req)
        context = req.scope["blazar"]
        context.watch_client()
        resp.media = {"input_tokens": await count_tokens(self._node, context, inbound)}
