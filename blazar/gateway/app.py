"""The Falcon app: which route is answered by what, and how errors leave."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import falcon
import falcon.asgi
import msgspec
from falcon.media import JSONHandler

from blazar import _native
from blazar.errors import BadRequest, BlazarError, Internal, MethodNotAllowed, NotFound, PayloadTooLarge
from blazar.gateway import errors
from blazar.gateway.anthropic.batches import (
    AnthropicLines,
    CancelMessageBatch,
    MessageBatch,
    MessageBatches,
    MessageBatchResults,
)
from blazar.gateway.anthropic.messages import CountTokens, Messages
from blazar.gateway.batches import Batches
from blazar.gateway.control.cache import Cache
from blazar.gateway.control.coreside import Coreside
from blazar.gateway.control.engine import EngineTool, EngineView, Infill
from blazar.gateway.control.engines import Engines
from blazar.gateway.control.explain import Explain
from blazar.gateway.control.fit import Fit
from blazar.gateway.control.health import Errors, Health
from blazar.gateway.control.keys import ApiKeys, RotateKey
from blazar.gateway.control.quantize import Quantize
from blazar.gateway.control.requests import CancelRequest, OneRequest, Requests
from blazar.gateway.control.residency import Evict, Reset, Warm
from blazar.gateway.control.sessions import Session, Sessions
from blazar.gateway.due import Scope, rates
from blazar.gateway.guard import Guard
from blazar.gateway.ollama.create import Blob, Create
from blazar.gateway.ollama.manage import Account, Copy, Delete, Pull, Push
from blazar.gateway.ollama.models import Greeting, Ps, Show, Tags, Version
from blazar.gateway.ollama.text import Chat, Generate
from blazar.gateway.ollama.vectors import Embed, Embeddings
from blazar.gateway.openai.background import Jobs
from blazar.gateway.openai.batches import BatchList, CancelBatch, OneBatch, OpenaiLines
from blazar.gateway.openai.files import Content, File, Files
from blazar.gateway.openai.models import Models, OneModel
from blazar.gateway.openai.responses import Cancel, InputItems, InputTokens, OneResponse, Responses
from blazar.gateway.openai.text import ChatCompletions, Completions
from blazar.gateway.openai.vectors import Embeddings as OpenaiEmbeddings
from blazar.gateway.openai.vectors import Rerank
from blazar.gateway.register import Register
from blazar.gateway.shell import Shell

if TYPE_CHECKING:
    import signal

    from falcon.asgi import Request, Response

    from blazar.node import Node

_log = logging.getLogger("blazar.gateway")


def routes(node: Node, register: Register) -> dict[str, Any]:
    """Every path with the resource that answers it. ``register`` knows who is being answered."""
    health = Health(node)
    batches, messages_lines = Batches(node, register), AnthropicLines(node)
    batches.speaks("openai", OpenaiLines(node))
    batches.speaks("anthropic", messages_lines)
    node.ready.append(batches.resume)
    jobs = Jobs(node, register)
    responses = {
        "/responses": Responses(node, jobs),
        "/responses/input_tokens": InputTokens(node),
        "/responses/{id}": OneResponse(node, jobs),
        "/responses/{id}/cancel": Cancel(node, jobs),
        "/responses/{id}/input_items": InputItems(node),
    }
    return {
        "/": Greeting(),
        "/v1/chat/completions": ChatCompletions(node),
        "/v1/completions": Completions(node),
        **{path: OpenaiEmbeddings(node) for path in ("/v1/embeddings", "/embeddings")},
        **{path: Rerank(node) for path in ("/v1/rerank", "/v1/reranking", "/rerank", "/reranking", "/api/rerank")},
        "/v1/models": Models(node),
        "/v1/models/{name:path}": OneModel(node),
        **{f"{prefix}{path}": resource for prefix in ("", "/v1") for path, resource in responses.items()},
        "/v1/files": Files(node),
        "/v1/files/{id}": File(node),
        "/v1/files/{id}/content": Content(node),
        "/v1/batches": BatchList(node, batches),
        "/v1/batches/{id}": OneBatch(node, batches),
        "/v1/batches/{id}/cancel": CancelBatch(node, batches),
        "/v1/messages/batches": MessageBatches(node, batches, messages_lines),
        "/v1/messages/batches/{id}": MessageBatch(batches, messages_lines),
        "/v1/messages/batches/{id}/cancel": CancelMessageBatch(batches),
        "/v1/messages/batches/{id}/results": MessageBatchResults(batches, messages_lines),
        "/api/me": Account(),
        "/api/signout": Account(),
        "/v1/messages": Messages(node),
        "/v1/messages/count_tokens": CountTokens(node),
        "/api/chat": Chat(node),
        "/api/generate": Generate(node),
        "/api/embed": Embed(node),
        "/api/embeddings": Embeddings(node),
        "/api/tags": Tags(node),
        "/api/ps": Ps(node),
        "/api/show": Show(node),
        "/api/version": Version(),
        "/api/create": Create(node),
        "/api/blobs/{digest}": Blob(node),
        "/api/push": Push(),
        "/api/copy": Copy(node),
        "/api/delete": Delete(node),
        "/api/pull": Pull(node),
        "/api/errors": Errors(),
        "/api/evict": Evict(node),
        "/api/warm": Warm(node),
        "/api/cache": Cache(node),
        "/api/coreside": Coreside(node),
        "/api/explain": Explain(node),
        "/api/fit": Fit(node),
        "/api/engines": Engines(node),
        "/api/quantize": Quantize(node),
        "/api/reset": Reset(node),
        "/api/session": Session(node),
        "/api/sessions": Sessions(node),
        "/api/keys": ApiKeys(node),
        "/api/keys/rotate": RotateKey(node),
        "/infill": Infill(node),
        "/slots": EngineView(node, "/slots"),
        "/props": EngineView(node, "/props"),
        **{path: EngineTool(node, path) for path in ("/tokenize", "/detokenize", "/apply-template")},
        "/v1/requests": Requests(register),
        "/v1/requests/{trace}": OneRequest(register),
        "/v1/requests/{trace}/cancel": CancelRequest(register),
        "/health": health,
        "/healthz": health,
    }


def create_app(node: Node, close_on: signal.Signals | None = None) -> Shell:
    """The whole ASGI app over ``node``, which its lifespan starts and stops, or the signal ``close_on`` stops."""
    app = falcon.asgi.App(middleware=[Scope()])
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = JSONHandler(dumps=msgspec.json.encode)
    app.add_error_handler(BlazarError, _refused)
    app.add_error_handler(falcon.HTTPError, _falcon_error)
    app.add_error_handler(Exception, _fault)
    register = Register()
    for path, resource in routes(node, register).items():
        if hasattr(resource, "on_get") and not hasattr(resource, "on_head"):
            resource.on_head = resource.on_get  # clients ask so whether something is there; the server sends no body
        app.add_route(path, resource)
    server = node.config.server
    return Shell(
        app,
        Guard(server, node.keys),
        startup=partial(_start, node),
        shutdown=node.stop,
        cors_origins=server.cors_origins,
        close_on=close_on,
        ping_s=node.config.relay.ping_s,
        register=register,
    )


async def _start(node: Node) -> None:
    await node.start()
    for begin in node.ready:
        begin()
    server = node.config.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    _log.info("Blazar %s answers at http://%s:%d", _native.VERSION, host, server.port)


async def _refused(req: Request, resp: Response, error: BlazarError, params: dict[str, Any]) -> None:
    context = req.scope["blazar"]
    context.status = error.status
    if context.early:
        resp.stream = None
        resp.data = context.failed(error)
        return
    dialect = errors.dialect_of(context.path, req.scope["headers"])
    rendered = errors.render(error, dialect, context.trace)
    resp.status = rendered.status
    for name, value in (*rendered.headers, *rates(context, dialect)):
        resp.set_header(name, value)
    resp.stream = None
    resp.data = rendered.body


async def _falcon_error(req: Request, resp: Response, error: falcon.HTTPError, params: dict[str, Any]) -> None:
    """Falcon's own refusals (no route, no such method, a header that is none) in our shapes."""
    kind: BlazarError
    if isinstance(error, falcon.HTTPNotFound):
        kind = NotFound(f"route {req.method} {req.path}")
    elif isinstance(error, falcon.HTTPMethodNotAllowed):
        allowed = str(dict(error.headers or {}).get("Allow", "")).split(", ")
        kind = MethodNotAllowed(req.method, req.path, allowed)
        resp.set_header("allow", ", ".join(allowed))
    elif isinstance(error, falcon.HTTPPayloadTooLarge):
        kind = PayloadTooLarge(0)
    else:
        kind = BadRequest(error.description or error.title or "The request cannot be understood.")
    await _refused(req, resp, kind, params)


async def _fault(req: Request, resp: Response, error: Exception, params: dict[str, Any]) -> None:
    context = req.scope["blazar"]
    _log.error("trace %s %s", context.trace, context.path, exc_info=error)
    await _refused(req, resp, Internal(context.trace), params)
