"""``/v1/embeddings`` and ``/v1/rerank``."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from blazar.errors import BadRequest
from blazar.gateway.body import typed, whole
from blazar.gateway.due import rates
from blazar.gateway.same import shared
from blazar.gateway.vectors import MOST, Input, Wish, embed, embedder, rank, shortened

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.gateway.errand import Errand
    from blazar.node import Node


class _Asked(msgspec.Struct):
    model: Annotated[str, Meta(min_length=1)]
    input: str | list[Any]
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    keep_alive: float | None = None


class Embeddings:
    """Vectors of texts."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """A vector for each input, as numbers or as base64 of little-endian float32."""
        body = await whole(self._node, req)
        context = req.scope["blazar"]
        context.watch_client()
        resp.media = await embeddings(self._node, context, body, req.path)
        resp.set_headers((*rates(context, "openai"), *shared(context)))


async def embeddings(node: Node, errand: Errand, body: bytes, path: str) -> dict[str, object]:
    """The answer to the request ``body``. Raises BadRequest and what the engine's way raises."""
    asked = typed(body, _Asked, path)
    inputs = _inputs(asked.input)
    model = embedder(node, errand, asked.model, len(body))
    done = await embed(node, errand, model, inputs, truncate=False, path="input", wish=Wish(asked.keep_alive))
    vectors = shortened(done.vectors, asked.dimensions)
    coded = asked.encoding_format == "base64"
    return {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode() if coded else row.tolist(),
            }
            for index, row in enumerate(vectors)
        ],
        "model": asked.model,
        "usage": {"prompt_tokens": done.tokens, "total_tokens": done.tokens},
    }


def _inputs(given: str | list[Any]) -> list[Input]:
    """One text, one list of tokens, or a list of these. Raises BadRequest with the place."""
    if isinstance(given, str):
        return [_checked(given, "input")]
    if given and all(type(token) is int for token in given):
        return [_checked(given, "input")]
    if not 0 < len(given) <= MOST:
        raise BadRequest(f"Expected 1 to {MOST} inputs, found {len(given)}.", param="input")
    return [_checked(item, f"input[{place}]") for place, item in enumerate(given)]


def _checked(item: Any, path: str) -> Input:
    if isinstance(item, list) and item and all(type(token) is int and token >= 0 for token in item):
        return item
    if not isinstance(item, str):
        raise BadRequest("Expected a text, or a list of tokens.", param=path)
    if not item:
        raise BadRequest("Expected a text, found an empty one.", param=path)
    return item


class _Document(msgspec.Struct):
    text: str


class _Ranking(msgspec.Struct):
    model: Annotated[str, Meta(min_length=1)]
    query: Annotated[str, Meta(min_length=1)]
    documents: list[str | _Document] = []
    texts: list[str] = []
    top_n: Annotated[int, Meta(ge=1)] | None = None
    return_documents: bool = False


class Rerank:
    """Texts by their relevance to a question, in the shape that Jina and Cohere share."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """Places and scores, the most relevant first. Scores are the model's own, and of no fixed range."""
        asked = typed(await whole(self._node, req), _Ranking, req.path)
        given: list[str | _Document] = asked.documents or [*asked.texts]
        if not 0 < len(given) <= MOST:
            raise BadRequest(f"Expected 1 to {MOST} documents, found {len(given)}.", param="documents")
        texts = [item if isinstance(item, str) else item.text for item in given]
        context = req.scope["blazar"]
        context.watch_client()
        ranked = await rank(self._node, context, asked.model, asked.query, texts, asked.top_n)
        resp.set_headers(shared(context))
        resp.media = {
            "object": "list",
            "model": asked.model,
            "results": [
                {"index": index, "relevance_score": score}
                | ({"document": {"text": texts[index]}} if asked.return_documents else {})
                for index, score in ranked.scores
            ],
            "usage": {"prompt_tokens": ranked.tokens, "total_tokens": ranked.tokens},
        }
