"""``/api/chat`` and ``/api/generate``; an empty prompt loads the model, or with ``keep_alive`` 0 unloads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blazar.clock import rfc3339
from blazar.gateway.due import chosen
from blazar.gateway.exchange import answer, lease, read

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar import _native
    from blazar.node import Node


class Chat:
    """A conversation's next turn."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Answer a conversation."""
        await _answer(self._node, "ollama.chat", req, resp)


class Generate:
    """An answer to one prompt."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Answer a prompt."""
        await _answer(self._node, "ollama.generate", req, resp)


async def _answer(node: Node, route: str, req: Request, resp: Response) -> None:
    inbound = await read(node, route, req)
    if inbound.load_only:
        await _load(node, inbound, req, resp)
    else:
        await answer(node, inbound, req, resp)


async def _load(node: Node, inbound: _native.Inbound, req: Request, resp: Response) -> None:
    """Load or unload, and say which, in one line as Ollama does."""
    context = req.scope["blazar"]
    context.watch_client()
    model = chosen(node, context, inbound.model)
    unload = inbound.keep_alive_s == 0
    if unload:
        await node.fleet.unload(model.name, "asked for by a client")
    else:
        await lease(node, context, inbound)
    said = {
        "model": inbound.model,
        "created_at": rfc3339(node.clock.time_ns()),
        "done": True,
        "done_reason": "unload" if unload else "load",
    }
    if inbound.route == "ollama.chat":
        said["message"] = {"role": "assistant", "content": ""}
    else:
        said["response"] = ""
    resp.media = said
