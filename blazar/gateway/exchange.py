"""The life of one text request, top to bottom, for every dialect.

Resolve the model, lease an instance, enter admission, open the relay, deliver. What each step takes is left with the
context, and the shell has it given back however the request ends.
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING

import msgspec

from blazar import _native
from blazar.errors import (
    BadGateway,
    BadRequest,
    ModelNotFound,
    VisionProjectorMissing,
)
from blazar.gateway import structured
from blazar.gateway.again import once_more
from blazar.gateway.body import whole
from blazar.gateway.call import call
from blazar.gateway.context import UNCACHED
from blazar.gateway.decode import decoded
from blazar.gateway.due import charge, chosen, rates
from blazar.gateway.fault import error_of, explain, judge
from blazar.gateway.recall import Recall, recalled
from blazar.gateway.same import flight_of, shared
from blazar.gateway.turn import asked_context, enter, heavy, session, sit
from blazar.models import overlay

if TYPE_CHECKING:
    from collections.abc import Callable

    from falcon.asgi import Request, Response

    from blazar.gateway.context import Context
    from blazar.gateway.errand import Errand
    from blazar.models.catalogue import Model
    from blazar.node import Node
    from blazar.relay.delivery import Delivery
    from blazar.supervisor.instance import Instance, Lease


async def read(node: Node, route: str, req: Request) -> _native.Inbound:
    """Read a text request of ``route`` (a name that ``_native.parse`` knows).

    Raises PayloadTooLarge, whatever the headers said of the length; BadRequest with the path of the fault.
    """
    body = await whole(node, req)
    inbound = _parse(route, body)
    if not inbound.stream:
        req.scope["blazar"].body = body
    return inbound if inbound.plain else await _with_pictures(node, inbound, body)


async def parse(node: Node, route: str, body: bytes) -> _native.Inbound:
    """The request in ``body``, with the images that it names. Raises BadRequest with the path of the fault."""
    return await _with_pictures(node, _parse(route, body), body)


def _parse(route: str, body: bytes) -> _native.Inbound:
    try:
        return _native.parse(route, body)
    except _native.BadInput as bad:
        message, path = bad.args
        raise BadRequest(message, param=path or None) from None


async def _with_pictures(node: Node, inbound: _native.Inbound, body: bytes) -> _native.Inbound:
    if inbound.links:
        from blazar.gateway import pictures  # noqa: PLC0415  (most days nobody sends a link)

        await pictures.bring(node, inbound, body)
    return inbound


async def lease(node: Node, errand: Errand, inbound: _native.Inbound) -> Lease:
    """Have the request's model loaded and held until the request is over."""
    return await _hold(node, errand, inbound, _prepare(node, errand, inbound))


def _prepare(node: Node, errand: Errand, inbound: _native.Inbound) -> Model:
    """Check what is asked of the model, put on it what the model's Modelfile sets, and charge the key."""
    model = chosen(node, errand, inbound.model)
    if (
        not inbound.load_only
        and "completion" not in model.capabilities
        and not {"embedding", "rerank"}.isdisjoint(model.capabilities)
    ):
        what = "ranks" if "rerank" in model.capabilities else "gives vectors"
        raise BadRequest(f"'{model.name}' {what} and does not generate text.", param="model")
    if inbound.thinks and "thinking" not in model.capabilities:
        _cannot_think(errand, inbound.route)
    if model.overlay:
        _dress(inbound, model)
    if inbound.has_template and not inbound.load_only:
        _render(errand, inbound)
    if not inbound.plain and inbound.has_images and not model.projector:
        raise VisionProjectorMissing(model.name)
    charge(errand, *((0, 0) if inbound.load_only else inbound.cost))
    return model


async def _hold(node: Node, errand: Errand, inbound: _native.Inbound, model: Model) -> Lease:
    before = monotonic_ns()
    context = inbound.num_ctx or asked_context(errand)
    sees = not inbound.plain and inbound.has_images
    held = await node.fleet.ensure_ready(runs(node, model), context=context, sees=sees, session=session(errand))
    keep_alive = inbound.keep_alive_s
    errand.finally_do(partial(held.release, keep_alive))
    errand.load_ns = monotonic_ns() - before
    if sees and inbound.has_foreign_pictures(held.instance.family):
        await _convert_pictures(inbound, held.instance.family)
    return held


async def _convert_pictures(inbound: _native.Inbound, family: str) -> None:
    try:
        await asyncio.to_thread(inbound.convert_pictures, family)
    except _native.BadInput as bad:
        raise BadRequest(bad.args[0]) from None


def runs(node: Node, model: Model) -> Model:
    """The model whose instance answers for ``model``: one that a Modelfile made of another shares the other's, as long
    as that has the same weights.
    """
    base = overlay.read(model.overlay).base if model.overlay else ""
    if base:
        try:
            origin = node.catalogue.find(base)
        except ModelNotFound:
            return model
        if _made_of(origin) == _made_of(model):
            return origin
    return model


def _made_of(model: Model) -> tuple[object, ...]:
    return model.digest, model.projector, overlay.adapters(model.overlay)


def _dress(inbound: _native.Inbound, model: Model) -> None:
    try:
        inbound.dress(model.overlay.encode())
    except _native.BadInput as bad:
        raise BadRequest(f"What the Modelfile of '{model.name}' sets cannot be used: {bad.args[0]}") from None


def _render(errand: Errand, inbound: _native.Inbound) -> None:
    try:
        inbound.render(errand.created_ns)
    except _native.BadInput as bad:
        raise BadRequest(bad.args[0], param="template") from None


def _cannot_think(errand: Errand, route: str) -> None:
    """Ollama refuses what OpenAI's and Anthropic's clients ask of every model; those are told that it had no effect."""
    why = f"'{errand.model}' does not support thinking: its chat template has no place for it."
    if route.startswith("ollama."):
        raise BadRequest(f"{why} Leave out think.", param="think")
    errand.warnings.append(why)


async def answer(
    node: Node,
    inbound: _native.Inbound,
    req: Request,
    resp: Response,
    keep: Callable[[bytes], None] | None = None,
) -> None:
    """Answer a text request whose body has been read. ``keep`` gets the finished answer as an object, before the
    client has the end of it.
    """
    context: Context = req.scope["blazar"]
    context.watch_client()
    enforce = not inbound.plain and structured.shaped(inbound) and structured.enforced(context)
    if inbound.stream:
        if enforce:
            raise BadRequest("An answer can be enforced when it is whole only; leave out stream.", param="stream")
        context.keep_open(inbound)
    _normalise(node, context, inbound)
    model = _prepare(node, context, inbound)
    attempt = partial(once_more, context, partial(_attempt, node, context, inbound, model, keep))
    # What is kept has an id of its own.
    alone = keep is not None or inbound.stream
    recall = None if alone else await recalled(node, context, inbound, model)
    if recall is not None and recall.found is not None:
        _repeat(recall, context, inbound, resp)
        return
    flight = None if alone else flight_of(node, context, inbound, model)
    exchange, delivery, body = await attempt() if flight is None else await node.flights.share(context, flight, attempt)
    extra: list[tuple[str, str]] = []
    if inbound.stream:
        delivery.straight = context.send_more
        resp.stream = delivery
        context.streaming = True
        extra += UNCACHED
    else:
        resp.data = body
        if not inbound.plain and (said := structured.verdict(inbound, exchange, enforce=enforce)):
            extra.append(("x-blazar-structured-output", _header(said)))
        if recall is not None:
            recall.leave(context, body)
            extra.append(("x-blazar-cache", _header(recall.told)))
    resp.set_headers(
        (
            ("content-type", exchange.content_type),
            ("x-blazar-trace-id", context.trace),
            ("server-timing", _timing(context, exchange)),
            *extra,
            *told(context, inbound),
            *shared(context),
            *rates(context, inbound.route),
        )
    )


def _repeat(recall: Recall, context: Context, inbound: _native.Inbound, resp: Response) -> None:
    """Answer with what another request was answered with; no engine is asked and no token counted."""
    assert recall.found is not None
    context.spent = (0, 0)
    resp.data = recall.found[0].body
    resp.set_headers(
        (
            ("content-type", "application/json"),
            ("x-blazar-trace-id", context.trace),
            ("x-blazar-cache", _header(recall.told)),
            *told(context, inbound),
            *rates(context, inbound.route),
        )
    )


async def _attempt(
    node: Node, context: Context, inbound: _native.Inbound, model: Model, keep: Callable[[bytes], None] | None
) -> tuple[_native.Exchange, Delivery, bytes]:
    """Ask an engine; a stream's beginning, or all of an answer. Raises what failed before the client had a byte."""
    exchange, delivery, instance = await _send(node, context, inbound, model)
    if keep is not None:
        delivery.finished = partial(_keep, exchange, keep)
    body = b""
    if inbound.stream:
        context.flows(delivery, exchange)
        await delivery.head()
    else:
        body = await delivery.whole()
    _raise_fault(context, exchange, instance)
    return exchange, delivery, body


def _keep(exchange: _native.Exchange, keep: Callable[[bytes], None]) -> None:
    if document := exchange.document:
        keep(document)


async def run(node: Node, errand: Errand, inbound: _native.Inbound) -> bytes:
    """The body of an answer that nobody streams, for whoever waits elsewhere."""
    _normalise(node, errand, inbound)
    model = _prepare(node, errand, inbound)

    async def attempt() -> bytes:
        exchange, delivery, instance = await _send(node, errand, inbound, model)
        body = await delivery.whole()
        _raise_fault(errand, exchange, instance)
        return body

    return await once_more(errand, attempt)


def _normalise(node: Node, errand: Errand, inbound: _native.Inbound) -> None:
    if node.config.server.normalise:
        errand.normalised = inbound.normalise()


def _check_schema(errand: Errand, inbound: _native.Inbound, family: str) -> None:
    """What the engine's grammar leaves out is named; where a strict schema depends on it, refused."""
    left_out = inbound.unexpressed(family)
    if refused := [f"{keyword} (at {path})" for path, keyword, refuse in left_out if refuse]:
        raise BadRequest(
            f"The answer cannot be held to this part of its schema: {', '.join(refused)}. Leave it out, or set strict "
            "to false to have the answer checked afterwards."
        )
    if left_out:
        names = ", ".join(f"{keyword} (at {path})" for path, keyword, _ in left_out)
        errand.warnings.append(f"Not enforced while the answer is made, only checked afterwards: {names}.")


async def begin(node: Node, errand: Errand, inbound: _native.Inbound) -> Delivery:
    """The beginning of an answer is there, the rest on its way. All of it is given back when the errand is over."""
    _normalise(node, errand, inbound)
    model = _prepare(node, errand, inbound)

    async def attempt() -> Delivery:
        exchange, delivery, instance = await _send(node, errand, inbound, model)
        await delivery.head()
        _raise_fault(errand, exchange, instance)
        return delivery

    return await once_more(errand, attempt)


async def _send(
    node: Node, errand: Errand, inbound: _native.Inbound, model: Model
) -> tuple[_native.Exchange, Delivery, Instance]:
    instance = (await _hold(node, errand, inbound, model)).instance
    if not inbound.plain:
        _check_schema(errand, inbound, instance.family)
    await enter(node, errand, instance, lane=inbound.lane, heavy=heavy(inbound))
    sit(node, errand, inbound, instance)
    exchange = _native.Exchange(
        inbound,
        family=instance.family,
        alias=instance.alias,
        host=f"{instance.host}:{instance.port}",
        secret=instance.secret,
        id=errand.id,
        created_ns=errand.created_ns,
        started_ns=errand.started_ns,
        load_ns=errand.load_ns,
    )
    delivery = await node.relay.open(instance, exchange, lambda: explain(node, instance))
    errand.delivery, errand.exchange = delivery, exchange
    errand.finally_do(partial(_settle, node, errand, instance, exchange, delivery))
    return exchange, delivery, instance


def told(errand: Errand, inbound: _native.Inbound) -> list[tuple[str, str]]:
    """Headers that name what had no effect."""
    headers: list[tuple[str, str]] = []
    if inbound.plain and not errand.warnings and not errand.normalised:
        return headers
    if errand.warnings:
        headers.append(("x-blazar-warnings", _header(" ".join(errand.warnings))))
    if errand.normalised:
        headers.append(("x-blazar-normalised", ",".join(errand.normalised)))
    if dropped := inbound.dropped_tools:
        headers.append(("x-blazar-dropped-tools", _header(",".join(dropped))))
    return headers


def _header(text: str) -> str:
    """``text`` as a header's value can carry it."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:1000])


async def count_tokens(node: Node, errand: Errand, inbound: _native.Inbound) -> int:
    """Tokens of the request's prompt, as the model's own template and tokenizer make them."""
    _normalise(node, errand, inbound)
    model = _prepare(node, errand, inbound)

    async def attempt() -> tuple[int, bytes, Instance]:
        instance = (await _hold(node, errand, inbound, model)).instance
        path, body = _native.count_request(inbound, instance.family, instance.alias)
        status, _, raw = await call(node, errand, instance, "POST", path, body)
        return status, raw, instance

    status, raw, instance = await once_more(errand, attempt)
    try:
        counted = decoded(raw, _Counted)
    except msgspec.DecodeError:
        counted = _Counted()
    if counted.input_tokens is None and counted.tokens is None:
        raise BadGateway(f"The engine did not count the prompt of '{instance.name}' (status {status}).")
    return len(counted.tokens or ()) if counted.input_tokens is None else counted.input_tokens


class _Counted(msgspec.Struct):
    """Of a chat, or of text: then the tokens themselves."""

    input_tokens: int | None = None
    tokens: list[int] | None = None


def _raise_fault(errand: Errand, exchange: _native.Exchange, instance: Instance) -> None:
    """Before the client has a byte, a failure is a status, not an event in a stream."""
    if exchange.fault is not None and not exchange.started:
        if errand.refusal is not None:
            raise errand.refusal
        raise error_of(exchange.fault, instance)


def _settle(node: Node, errand: Errand, instance: Instance, exchange: _native.Exchange, delivery: Delivery) -> None:
    """What it came to; where that was cut off, what was read of it and what had come."""
    usage = exchange.usage
    judge(node, instance, exchange.fault, complete=usage is not None)
    if usage is not None:
        errand.spent = (usage[0], usage[2])
    elif exchange.fault is None or exchange.pieces:
        errand.spent = (errand.cost[0], exchange.pieces)
    node.relay.close(delivery)


def _timing(errand: Errand, exchange: _native.Exchange) -> str:
    """As the Server-Timing header wants it: milliseconds."""
    first = exchange.first_ns
    began = errand.started_ns + errand.load_ns + errand.queue_ns
    # An answer that was made for another may have begun before.
    prefill = 0.0 if first is None else max(0, first - began) / 1e6
    total = (monotonic_ns() - errand.started_ns) / 1e6
    queue, load = errand.queue_ns / 1e6, errand.load_ns / 1e6
    return f"queue;dur={queue:.3f}, load;dur={load:.3f}, prefill;dur={prefill:.3f}, total;dur={total:.3f}"
