"""Vectors and rankings, for every dialect: what goes to the engine, and what comes back."""

from __future__ import annotations

import base64
import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from blazar.errors import BadGateway, BadRequest, PromptTooLong
from blazar.gateway.again import once_more
from blazar.gateway.call import call
from blazar.gateway.decode import decoded
from blazar.gateway.due import charge, chosen
from blazar.gateway.same import vectors_of
from blazar.gateway.turn import asked_context, enter, session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import numpy as np
    from numpy.typing import NDArray

    from blazar.gateway.errand import Errand
    from blazar.models.catalogue import Model
    from blazar.node import Node
    from blazar.supervisor.instance import Instance

T = TypeVar("T")
Input = str | list[int]
MOST = 2048
_TOO_LARGE = re.compile(r"input \((\d+) tokens\) is too large")


class Embedded(NamedTuple):
    """Vectors in the order of their inputs, float32 and of unit length, ``(inputs, dimensions)``; ``tokens`` of all."""

    vectors: NDArray[np.float32]
    tokens: int


class Ranked(msgspec.Struct, frozen=True):
    """Places of documents with their relevance as the model puts it, the most relevant first; ``tokens`` of all."""

    scores: tuple[tuple[int, float], ...]
    tokens: int


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0


class _Vector(msgspec.Struct):
    embedding: str
    index: int = 0


class _Vectors(msgspec.Struct):
    data: list[_Vector]
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _Score(msgspec.Struct):
    index: int
    relevance_score: float


class _Scores(msgspec.Struct):
    results: list[_Score]
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _Error(msgspec.Struct):
    message: str = ""
    n_prompt_tokens: int = 0


class _Failed(msgspec.Struct):
    error: _Error


class _Tokens(msgspec.Struct):
    tokens: list[int]


class Wish(NamedTuple):
    """What a request says of the model beside the texts: seconds to stay, the context in tokens, and whether it is to
    be loaded only where nobody need leave for it.
    """

    keep_alive_s: float | None = None
    num_ctx: int | None = None
    modest: bool = False


def embedder(node: Node, errand: Errand, name: str, size: int) -> Model:
    """The model that embeds ``size`` bytes, which are charged. Raises BadRequest where it cannot."""
    model = chosen(node, errand, name)
    if "embedding" not in model.capabilities and "completion" not in model.capabilities:
        raise BadRequest(f"'{model.name}' does not give vectors; it can do: {_can(model)}.", param="model")
    charge(errand, size // 4)
    return model


async def embed(
    node: Node,
    errand: Errand,
    model: Model,
    inputs: list[Input],
    *,
    truncate: bool,
    path: str,
    wish: Wish = Wish(),  # noqa: B008  (a value)
) -> Embedded:
    """The vectors of ``inputs``; without any, the model is loaded. With ``truncate``, what is longer than the context
    is cut to it; otherwise it is refused, with its place under ``path``. Raises PromptTooLong, BadRequest, BadGateway.
    """

    async def attempt() -> Embedded:
        instance = await _held(node, errand, model, wish, embeds="embedding" not in model.capabilities)
        return await _embedded(node, errand, instance, inputs, truncate=truncate, path=path)

    said = msgspec.json.encode((inputs, truncate, path, wish))
    return await _shared(node, errand, model, said, partial(once_more, errand, attempt))


async def _shared(
    node: Node, errand: Errand, model: Model, said: bytes, make: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """What ``make`` gives, made once for all who ask the same at once."""
    flight = vectors_of(node, errand, model, said)
    return await make() if flight is None else await node.flights.share(errand, flight, make)


async def _embedded(
    node: Node, errand: Errand, instance: Instance, inputs: list[Input], *, truncate: bool, path: str
) -> Embedded:
    import numpy as np  # noqa: PLC0415  (most days nobody asks for vectors)

    if not inputs:
        return Embedded(np.zeros((0, 0), np.float32), 0)
    if truncate:
        most = longest(instance)
        inputs = [await _cut(node, errand, instance, text, most) for text in inputs]
    body = msgspec.json.encode({"input": inputs, "encoding_format": "base64"})
    status, _, raw = await call(node, errand, instance, "POST", "/v1/embeddings", body)
    if status != 200:
        raise await _refused(node, errand, instance, inputs, status, raw, path)
    try:
        answer = decoded(raw, _Vectors)
        rows = [row.embedding for row in sorted(answer.data, key=lambda row: row.index)]
        vectors = np.frombuffer(b"".join(map(base64.b64decode, rows)), "<f4").reshape(len(inputs), -1)
    except (msgspec.DecodeError, ValueError):
        raise BadGateway(f"The engine's vectors of '{instance.name}' cannot be read.") from None
    errand.spent = (answer.usage.prompt_tokens, 0)
    return Embedded(vectors, answer.usage.prompt_tokens)


def shortened(vectors: NDArray[np.float32], dimensions: int | None) -> NDArray[np.float32]:
    """The first ``dimensions`` of each vector, made of unit length again. Raises BadRequest for more than there are."""
    import numpy as np  # noqa: PLC0415

    if dimensions is None or dimensions == vectors.shape[1]:
        return vectors
    if dimensions > vectors.shape[1]:
        raise BadRequest(
            f"{dimensions} dimensions were asked for and the model gives {vectors.shape[1]}.", param="dimensions"
        )
    cut = vectors[:, :dimensions]
    length = np.linalg.norm(cut, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.divide(cut, length, out=np.zeros_like(cut), where=length > 0)
    return unit


async def rank(node: Node, errand: Errand, name: str, query: str, documents: list[str], top: int | None) -> Ranked:
    """The documents by relevance to ``query``. Raises BadRequest where the model does not rank."""
    model = chosen(node, errand, name)
    if "rerank" not in model.capabilities:
        raise BadRequest(f"'{model.name}' does not rank; it can do: {_can(model)}.", param="model")
    charge(errand, sum(len(query) + len(text) for text in documents) // 4)
    asked = {"query": query, "documents": documents, "top_n": min(top or len(documents), len(documents))}

    async def attempt() -> tuple[int, bytes, Instance]:
        instance = await _held(node, errand, model, Wish(), embeds=False)
        status, _, raw = await call(node, errand, instance, "POST", "/v1/rerank", msgspec.json.encode(asked))
        return status, raw, instance

    make = partial(once_more, errand, attempt)
    status, raw, instance = await _shared(node, errand, model, msgspec.json.encode((query, asked)), make)
    if status != 200:
        raise await _refused(node, errand, instance, [*documents], status, raw, "documents")
    try:
        answer = decoded(raw, _Scores)
    except msgspec.DecodeError:
        raise BadGateway(f"The engine's ranking of '{instance.name}' cannot be read.") from None
    errand.spent = (0 if errand.shares else answer.usage.prompt_tokens, 0)
    return Ranked(tuple((row.index, row.relevance_score) for row in answer.results), answer.usage.prompt_tokens)


async def _held(node: Node, errand: Errand, model: Model, wish: Wish, *, embeds: bool) -> Instance:
    held = await node.fleet.ensure_ready(
        model,
        context=wish.num_ctx or asked_context(errand),
        embeds=embeds,
        session=session(errand),
        modest=wish.modest,
    )
    errand.finally_do(partial(held.release, wish.keep_alive_s))
    await enter(node, errand, held.instance)
    return held.instance


def longest(instance: Instance) -> int:
    """Tokens of the longest input. A model that generates keeps a place for the token that would come next."""
    context = min(instance.context, instance.settings.context)
    return context if "embedding" in instance.model.capabilities else context - 1


async def _cut(node: Node, errand: Errand, instance: Instance, text: Input, most: int) -> Input:
    """At most so many tokens. A token is a byte at least, and a model adds two of its own at most."""
    length = len(text.encode()) if isinstance(text, str) else len(text)
    if length + 2 <= most:
        return text
    tokens = await _tokens(node, errand, instance, text) if isinstance(text, str) else text
    return tokens[:most] if len(tokens) > most else text


async def _tokens(node: Node, errand: Errand, instance: Instance, text: str) -> list[int]:
    body = msgspec.json.encode({"content": text, "add_special": True})
    _, _, raw = await call(node, errand, instance, "POST", "/tokenize", body)
    try:
        return decoded(raw, _Tokens).tokens
    except msgspec.DecodeError:
        raise BadGateway(f"The engine does not tokenize for '{instance.name}'.") from None


async def _refused(
    node: Node, errand: Errand, instance: Instance, inputs: list[Input], status: int, raw: bytes, path: str
) -> PromptTooLong | BadRequest | BadGateway:
    """The engine's refusal, with the place of the input that it is about where there are several."""
    try:
        error = decoded(raw, _Failed).error
    except msgspec.DecodeError:
        return BadGateway(f"The engine that runs '{instance.name}' failed (status {status}).")
    too_large = _TOO_LARGE.search(error.message)
    tokens = int(too_large[1]) if too_large else error.n_prompt_tokens
    if tokens:
        late = PromptTooLong(tokens, longest(instance))
        late.param = path if len(inputs) == 1 else await _place(node, errand, instance, inputs, path)
        return late
    if status >= 500:
        return BadGateway(f"The engine that runs '{instance.name}' failed: {error.message}.")
    return BadRequest(error.message, param=path)


async def _place(node: Node, errand: Errand, instance: Instance, inputs: list[Input], path: str) -> str:
    for place, text in enumerate(inputs):
        if len(text) < longest(instance) // 8:
            continue
        tokens = await _tokens(node, errand, instance, text) if isinstance(text, str) else text
        if len(tokens) > longest(instance):
            return f"{path}[{place}]"
    return path


def _can(model: Model) -> str:
    return ", ".join(model.capabilities) or "nothing that is known"
