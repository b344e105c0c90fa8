"""``/v1/requests``: what is being answered now, and how to end one of it over another connection."""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic_ns
from typing import TYPE_CHECKING

from blazar.clock import rfc3339
from blazar.errors import NotFound, RequestCancelled
from blazar.gateway.due import mine

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.gateway.context import Context


class Requests:
    """Requests that are being answered for a model, the oldest first."""

    def __init__(self, live: Collection[Context]) -> None:
        self._live = live

    async def on_get(self, req: Request, resp: Response) -> None:
        """``?model=`` and ``?state=`` leave out the others."""
        model, state = req.get_param("model"), req.get_param("state")
        cards = [_card(context) for context in sorted(_seen(self._live, req), key=lambda one: one.started_ns)]
        resp.media = {
            "object": "list",
            "data": [card for card in cards if model in {None, card["model"]} and state in {None, card["state"]}],
        }


class OneRequest:
    """One of them, by its trace id."""

    def __init__(self, live: Collection[Context]) -> None:
        self._live = live

    async def on_get(self, req: Request, resp: Response, trace: str) -> None:
        """Its card."""
        resp.media = _card(_find(self._live, req, trace))

    async def on_delete(self, req: Request, resp: Response, trace: str) -> None:
        """End it."""
        _cancel(self._live, req, resp, trace)


class CancelRequest:
    """Ends one of them."""

    def __init__(self, live: Collection[Context]) -> None:
        self._live = live

    async def on_post(self, req: Request, resp: Response, trace: str) -> None:
        """Its client gets an error, in the stream where one has begun; the engine stops at once."""
        _cancel(self._live, req, resp, trace)


def _cancel(live: Collection[Context], req: Request, resp: Response, trace: str) -> None:
    context = _find(live, req, trace)
    card = _card(context)
    context.end(RequestCancelled())
    resp.media = card | {"state": "cancelled"}


def _seen(live: Collection[Context], req: Request) -> list[Context]:
    """Those that are about a model, and there for whoever asks."""
    asking = req.scope["blazar"]
    return [context for context in live if context.model and context is not asking and mine(asking, context.owner)]


def _find(live: Collection[Context], req: Request, trace: str) -> Context:
    for context in _seen(live, req):
        if context.trace == trace:
            return context
    raise NotFound(f"request '{trace}' that is being answered")


def _card(context: Context) -> dict[str, object]:
    card: dict[str, object] = {
        "id": context.trace,
        "object": "request",
        "model": context.model,
        "path": context.path,
        "key": context.owner or None,
        "state": context.stage,
        "stream": context.streams,
        "created_at": rfc3339(context.created_ns),
        "age_ms": (monotonic_ns() - context.started_ns) // 1_000_000,
    }
    ahead = context.place.ahead if context.place is not None else None
    if ahead is not None:
        card |= {"position": ahead[0], "estimated_wait_ms": int(ahead[1] * 1000)}
    return card
