"""``/v1/responses`` and what hangs below it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from blazar import _native
from blazar.errors import BadRequest, NotFound
from blazar.gateway.context import UNCACHED
from blazar.gateway.due import chosen
from blazar.gateway.errand import Errand
from blazar.gateway.exchange import answer, count_tokens, read, told
from blazar.gateway.openai import kept

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.gateway.openai.background import Job, Jobs
    from blazar.node import Node

_MOST_ITEMS = 100


async def _asked(node: Node, req: Request) -> _native.Inbound:
    """The request, after the conversation that it goes on from."""
    inbound = await read(node, "openai.responses", req)
    if inbound.previous is None:
        return inbound
    earlier = await asyncio.to_thread(kept.conversation, node, inbound.previous, req.scope["blazar"])
    try:
        return inbound.after(earlier)
    except _native.BadInput as bad:
        message, path = bad.args
        raise BadRequest(message, param=path or None) from None


class Responses:
    """A conversation's next turn, as a response."""

    def __init__(self, node: Node, jobs: Jobs) -> None:
        self._node = node
        self._jobs = jobs

    async def on_post(self, req: Request, resp: Response) -> None:
        """Answer now, or with ``background`` begin to."""
        inbound = await _asked(self._node, req)
        if inbound.background:
            await self._begin(inbound, req, resp)
            return
        owner = req.scope["blazar"].owner
        keep = partial(kept.keep, self._node, inbound, owner=owner) if inbound.store else None
        await answer(self._node, inbound, req, resp, keep)

    async def _begin(self, inbound: _native.Inbound, req: Request, resp: Response) -> None:
        context = req.scope["blazar"]
        chosen(self._node, context, inbound.model)
        job = self._jobs.start(inbound, Errand(context.trace, context.headers, context.key, context.path))
        resp.set_headers((("x-blazar-trace-id", context.trace), *told(context, inbound)))
        if inbound.stream:
            _replay(job, -1, req, resp)
        else:
            resp.content_type = "application/json"
            resp.data = job.opening


class OneResponse:
    """A kept response."""

    def __init__(self, node: Node, jobs: Jobs) -> None:
        self._node = node
        self._jobs = jobs

    async def on_get(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002  (the route's word)
        """The object; with ``stream=true``, the events of one that runs or ran in the background, after
        ``starting_after``.
        """
        if req.get_param_as_bool("stream"):
            kept.find(self._node, id, req.scope["blazar"])
            job = self._jobs.get(id)
            if job is None:
                raise BadRequest(f"The response '{id}' has no events to stream any more.", param="stream")
            _replay(job, req.get_param_as_int("starting_after", default=-1), req, resp)
            return
        resp.content_type = "application/json"
        resp.data = kept.find(self._node, id, req.scope["blazar"]).body.encode()

    async def on_delete(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002
        """Let it go; one that runs is stopped first."""
        kept.find(self._node, id, req.scope["blazar"])
        await self._jobs.cancel(id)
        self._node.store.responses.delete(id)
        resp.media = {"id": id, "object": "response", "deleted": True}


class Cancel:
    """Stops a response that runs in the background."""

    def __init__(self, node: Node, jobs: Jobs) -> None:
        self._node = node
        self._jobs = jobs

    async def on_post(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002
        """The object afterwards. One that is over stays as it is."""
        kept.find(self._node, id, req.scope["blazar"])
        await self._jobs.cancel(id)
        row = kept.find(self._node, id, req.scope["blazar"])
        if not msgspec.json.decode(row.body, type=_Background).background:
            raise BadRequest(f"The response '{id}' does not run in the background; close its connection to stop it.")
        resp.content_type = "application/json"
        resp.data = row.body.encode()


class _Background(msgspec.Struct):
    background: bool = False


class InputItems:
    """What a response was given."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_get(self, req: Request, resp: Response, id: str) -> None:  # noqa: A002
        """A page of items, the newest first unless ``order=asc``."""
        items = await asyncio.to_thread(kept.items, self._node, id, req.scope["blazar"])
        if (order := req.get_param("order") or "desc") not in {"asc", "desc"}:
            raise BadRequest(f"The order is asc or desc, not '{order[:20]}'.", param="order")
        limit = req.get_param_as_int("limit", min_value=1, max_value=_MOST_ITEMS, default=20)
        ordered = items if order == "asc" else items[::-1]
        after = req.get_param("after")
        if after is not None:
            ids = [item["id"] for item in ordered]
            if after not in ids:
                raise NotFound(f"item '{after[:60]}'")
            ordered = ordered[ids.index(after) + 1 :]
        page = ordered[:limit]
        resp.media = {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": len(ordered) > limit,
        }


class InputTokens:
    """How many tokens a response's input has."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Count with the model's own template and tokenizer."""
        inbound = await _asked(self._node, req)
        context = req.scope["blazar"]
        context.watch_client()
        tokens = await count_tokens(self._node, context, inbound)
        resp.media = {"object": "response.input_tokens", "input_tokens": tokens}


def _replay(job: Job, after: int, req: Request, resp: Response) -> None:
    """A client that leaves stops listening; the job goes on."""
    context: Any = req.scope["blazar"]
    context.watch_client()
    context.streaming = True
    resp.content_type = "text/event-stream; charset=utf-8"
    resp.set_headers(UNCACHED)
    resp.stream = job.events(after)
