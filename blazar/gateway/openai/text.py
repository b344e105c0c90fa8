"""``/v1/chat/completions`` and ``/v1/completions``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blazar.gateway.exchange import answer, read

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node


class ChatCompletions:
    """Chat, streamed or not."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Answer a conversation."""
        await answer(self._node, await read(self._node, "openai.chat", req), req, resp)


class Completions:
    """Plain continuation of a text."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Continue a text."""
        await answer(self._node, await read(self._node, "openai.text", req), req, resp)
