"""``/v1/requests``: what is being answered and what was lately, and how to end one of it over another connection."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from blazar.clock import rfc3339
from blazar.errors import NotFound, RequestCancelled
from blazar.gateway.due import mine

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.gateway.errand import Errand
    from blazar.gateway.register import Ended, Register


class Requests:
    """Requests that are being answered for a model, the oldest first; then those that were, the last first."""

    def __init__(self, register: Register) -> None:
        self._register = register

    async def on_get(self, req: Request, resp: Response) -> None:
        """``?model=`` and ``?state=`` leave out the others; ``live`` is every state of what is not over."""
        model, state = req.get_param("model"), req.get_param("state")
        asking = req.scope["blazar"]
        cards = [_card(errand) for errand in sorted(_seen(self._register, req), key=lambda one: one.started_ns)]
        if state == "live":
            state = None
        else:
            cards += [_memory(ended) for ended in self._register.ended if mine(asking, ended.owner)]
        resp.media = {
            "object": "list",
            "data": [card for card in cards if model in {None, card["model"]} and state in {None, card["state"]}],
        }


class OneRequest:
    """One of them, by its trace id."""

    def __init__(self, register: Register) -> None:
        self._register = register

    async def on_get(self, req: Request, resp: Response, trace: str) -> None:
        """Its card."""
        for errand in _seen(self._register, req):
            if errand.trace == trace:
                resp.media = _card(errand)
                return
        for ended in self._register.ended:
            if ended.trace == trace and mine(req.scope["blazar"], ended.owner):
                resp.media = _memory(ended)
                return
        raise NotFound(f"request '{trace}'")

    async def on_delete(self, req: Request, resp: Response, trace: str) -> None:
        """End it."""
        _cancel(self._register, req, resp, trace)


class CancelRequest:
    """Ends one of them."""

    def __init__(self, register: Register) -> None:
        self._register = register

    async def on_post(self, req: Request, resp: Response, trace: str) -> None:
        """Its client gets an error, in the stream where one has begun; the engine stops at once."""
        _cancel(self._register, req, resp, trace)


def _cancel(register: Register, req: Request, resp: Response, trace: str) -> None:
    for errand in _seen(register, req):
        if errand.trace == trace:
            card = _card(errand)
            errand.end(RequestCancelled())
            resp.media = card | {"state": "cancelled"}
            return
    raise NotFound(f"request '{trace}' that is being answered")


def _seen(register: Register, req: Request) -> list[Errand]:
    """Those that are about a model, and there for whoever asks."""
    asking = req.scope["blazar"]
    return [errand for errand in register.live if errand.model and errand is not asking and mine(asking, errand.owner)]


def _card(errand: Errand) -> dict[str, object]:
    card: dict[str, object] = {
        "id": errand.trace,
        "object": "request",
        "model": errand.model,
        "path": errand.path,
        "key": errand.owner or None,
        "state": errand.stage,
        "stream": errand.streams,
        "created_at": rfc3339(errand.created_ns),
        "age_ms": (monotonic_ns() - errand.started_ns) // 1_000_000,
    }
    ahead = errand.place.ahead if errand.place is not None else None
    if ahead is not None:
        card |= {"position": ahead[0], "estimated_wait_ms": int(ahead[1] * 1000)}
    if errand.exchange is not None:
        card["completion_tokens"] = errand.exchange.pieces
    if errand.shares:
        card["shares"] = errand.shares
    return card


def _memory(ended: Ended) -> dict[str, object]:
    prompt, completion = ended.tokens or (None, None)
    card: dict[str, object] = {
        "id": ended.trace,
        "object": "request",
        "model": ended.model,
        "path": ended.path,
        "key": ended.owner or None,
        "state": ended.state,
        "status": ended.status,
        "stream": ended.streams,
        "created_at": rfc3339(ended.created_ns),
        "load_ms": ended.load_ns // 1_000_000,
        "queue_ms": ended.queue_ns // 1_000_000,
        "total_ms": ended.total_ns // 1_000_000,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
    }
    return card | {"shares": ended.shares} if ended.shares else card
