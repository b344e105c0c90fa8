"""What a request may do in the name of its key, and what it owes for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from blazar.admission.keys import sees
from blazar.clock import rfc3339
from blazar.errors import KeyScopeForbidden, ModelNotFound, Unauthorized

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.admission.keys import Key, Keys
    from blazar.gateway.context import Context
    from blazar.gateway.errand import Errand
    from blazar.models.catalogue import Model
    from blazar.node import Node

Headers = tuple[tuple[str, str], ...]

# Whoever asks only whether something lives here needs no key.
_OPEN = frozenset({"/", "/health", "/healthz"})

_TEXT = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/api/chat")
_TOOLS = ("/api/generate", "/infill", "/tokenize", "/detokenize", "/apply-template", "/api/show")
_VECTORS = (
    "/v1/embeddings", "/embeddings", "/api/embed", "/api/embeddings", "/v1/rerank", "/v1/reranking", "/rerank",
    "/reranking", "/api/rerank",
)  # fmt: skip
_SEEN = ("/", "/health", "/healthz", "/api/version", "/api/tags", "/api/ps", "/api/errors", "/v1/models")
_KEPT = ("/v1/files", "/v1/batches", "/v1/messages/batches")

SCOPED: frozenset[tuple[str, str]] = frozenset(
    {("POST", path) for path in (*_TEXT, *_TOOLS, *_VECTORS)}
    | {("GET", path) for path in (*_SEEN, "/v1/models/{name:path}")}
    | {("POST", f"{prefix}{path}") for prefix in ("", "/v1") for path in ("/responses", "/responses/input_tokens")}
    | {(method, f"{prefix}/responses/{{id}}") for prefix in ("", "/v1") for method in ("GET", "DELETE")}
    | {("POST", f"{prefix}/responses/{{id}}/cancel") for prefix in ("", "/v1")}
    | {("GET", f"{prefix}/responses/{{id}}/input_items") for prefix in ("", "/v1")}
    | {(method, path) for method in ("GET", "POST") for path in _KEPT}
    | {("GET", f"{path}/{{id}}") for path in _KEPT}
    | {("DELETE", f"{path}/{{id}}") for path in ("/v1/files", "/v1/messages/batches")}
    | {("POST", f"{path}/{{id}}/cancel") for path in ("/v1/batches", "/v1/messages/batches")}
    | {("GET", "/v1/files/{id}/content"), ("GET", "/v1/messages/batches/{id}/results")}
    | {("GET", "/v1/requests"), ("GET", "/v1/requests/{trace}"), ("DELETE", "/v1/requests/{trace}")}
    | {("POST", "/v1/requests/{trace}/cancel")}
)
"""Methods and routes that are there for a key that is for some models only; whatever else there is or comes is not."""


def identify(keys: Keys, context: Context) -> None:
    """Find out whose request it is, where keys are on. Raises Unauthorized."""
    if not keys.on or context.path in _OPEN:
        return
    for secret in _secrets(context):
        if secret and (key := keys.find(secret)) is not None:
            context.key = key
            return
    raise Unauthorized


def is_owner(keys: Keys, context: Context) -> bool:
    """Whether it comes from somebody who may read this installation's files, whether keys are on or not."""
    return any(secret and keys.is_owner(secret) for secret in _secrets(context))


def _secrets(context: Context) -> tuple[str, str]:
    scheme, _, bearer = (context.header(b"authorization") or "").partition(" ")
    return bearer.strip() if scheme.lower() == "bearer" else "", context.header(b"x-api-key") or ""


class Scope:
    """Falcon's middleware that asks whether the key may use the route at all."""

    async def process_resource(self, req: Request, resp: Response, resource: object, params: dict[str, str]) -> None:
        """Raises KeyScopeForbidden."""
        key: Key | None = req.scope["blazar"].key
        if key is None or key.admin:
            return
        method = "GET" if req.method == "HEAD" else req.method
        if (method, req.uri_template) not in SCOPED:
            raise KeyScopeForbidden(key.name, f"{req.method} {req.path}")


def chosen(node: Node, errand: Errand, name: str) -> Model:
    """The model of that name. Raises ModelNotFound, which tells a key nothing of what is not its own, and
    KeyScopeForbidden.
    """
    key = errand.key
    try:
        model = node.catalogue.find(name)
    except ModelNotFound as missing:
        if key is None or key.admin:
            raise
        raise ModelNotFound(missing.model, [near for near in missing.near if key.may(near)]) from None
    if key is not None and not key.may(model.name):
        raise KeyScopeForbidden(key.name, f"the model '{model.name}'")
    errand.model = model.name
    return model


def visible(errand: Errand, models: tuple[Model, ...]) -> list[Model]:
    """Those that the key may use."""
    key = errand.key
    return [model for model in models if key is None or key.may(model.name)]


def mine(errand: Errand, owner: str) -> bool:
    """Whether what ``owner`` brought is there for this request."""
    return sees(errand.key, owner)


def charge(errand: Errand, prompt: int, answer: int = 0) -> None:
    """Reserve so many tokens of the key's budget, and settle with what was used when the errand is over. It is charged
    once, however much is asked of an engine for it. Raises RateLimited.
    """
    errand.cost = (prompt, answer)
    key = errand.key
    first, errand.charged = not errand.charged, True
    if key is not None and first:
        key.take(prompt + answer)
        errand.finally_do(partial(_settle, errand, key, prompt + answer))


def _settle(errand: Errand, key: Key, reserved: int) -> None:
    prompt, completion = errand.spent or (0, 0)
    key.settle(reserved, prompt, completion)


def rates(errand: Errand, dialect: str) -> Headers:
    """What is left of a key's minute, as clients of the dialect (or of one of its routes) read it."""
    key = errand.key
    if key is None or not key.limited:
        return ()
    found: list[tuple[str, str]] = []
    for what, left in zip(("requests", "tokens"), key.left(), strict=True):
        if left is None:
            continue
        bound, rest, wait_ns = left
        if dialect.startswith("anthropic"):
            stem = f"anthropic-ratelimit-{what}"
            reset = rfc3339(errand.now_ns() + wait_ns)
            found += [(f"{stem}-limit", str(bound)), (f"{stem}-remaining", str(rest)), (f"{stem}-reset", reset)]
        else:
            found += [
                (f"x-ratelimit-limit-{what}", str(bound)),
                (f"x-ratelimit-remaining-{what}", str(rest)),
                (f"x-ratelimit-reset-{what}", _duration(wait_ns)),
            ]
    return tuple(found)


def _duration(ns: int) -> str:
    """As OpenAI writes one: ``6m0s``, ``1.25s``, ``20ms``."""
    if ns < 1_000_000_000:
        return f"{-(-ns // 1_000_000)}ms"
    minutes, seconds = divmod(ns / 1e9, 60)
    return f"{int(minutes)}m{seconds:.3g}s" if minutes else f"{seconds:.4g}s"
