"""``/api/embed``, and ``/api/embeddings``, which came before it."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from blazar import _native
from blazar.errors import BadRequest
from blazar.gateway.body import typed, whole
from blazar.gateway.same import shared
from blazar.gateway.vectors import MOST, Input, Wish, embed, embedder, shortened

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from blazar.node import Node


class _Options(msgspec.Struct):
    num_ctx: Annotated[int, Meta(ge=1)] | None = None


class _Asked(msgspec.Struct):
    model: Annotated[str, Meta(min_length=1)]
    input: str | list[str] | None = None
    prompt: str = ""
    truncate: bool = True
    dimensions: Annotated[int, Meta(ge=0)] = 0
    options: _Options | None = None
    keep_alive: Any = None

    @property
    def stays_s(self) -> float | None:
        """``keep_alive`` in seconds; negative for ever. Raises BadRequest."""
        if self.keep_alive is None:
            return None
        try:
            said = msgspec.json.encode({"model": self.model, "keep_alive": self.keep_alive})
            return _native.parse("ollama.generate", said).keep_alive_s
        except _native.BadInput as bad:
            raise BadRequest(bad.args[0], param="keep_alive") from None

    @property
    def context(self) -> int | None:
        """The context that is asked for, in tokens."""
        return self.options.num_ctx if self.options is not None else None


class Embed:
    """Vectors of texts."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """A vector for each text; without any, the model is loaded. Too long a text is cut unless ``truncate`` is
        false.
        """
        body = await whole(self._node, req)
        asked = typed(body, _Asked, req.path)
        given = [asked.input] if isinstance(asked.input, str) else asked.input or []
        if len(given) > MOST:
            raise BadRequest(f"Expected at most {MOST} inputs, found {len(given)}.", param="input")
        inputs: list[Input] = [text for text in given if text] if isinstance(asked.input, str) else [*given]
        context = req.scope["blazar"]
        context.watch_client()
        wish = Wish(asked.stays_s, asked.context)
        if "" in inputs:
            raise BadRequest("Expected a text, found an empty one.", param=f"input[{inputs.index('')}]")
        model = embedder(self._node, context, asked.model, len(body))
        done = await embed(self._node, context, model, inputs, truncate=asked.truncate, path="input", wish=wish)
        resp.set_headers(shared(context))
        rows = shortened(done.vectors, asked.dimensions or None).tolist() if inputs else []
        resp.media = {
            "model": asked.model,
            "embeddings": rows,
            "total_duration": monotonic_ns() - context.started_ns,
            "load_duration": context.load_ns,
            "prompt_eval_count": done.tokens,
        }


class Embeddings:
    """The vector of one text."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def on_post(self, req: Request, resp: Response) -> None:
        """An empty prompt loads the model, and has no vector."""
        body = await whole(self._node, req)
        asked = typed(body, _Asked, req.path)
        context = req.scope["blazar"]
        context.watch_client()
        wish = Wish(asked.stays_s, asked.context)
        model = embedder(self._node, context, asked.model, len(body))
        given: list[Input] = [asked.prompt] if asked.prompt else []
        done = await embed(self._node, context, model, given, truncate=True, path="prompt", wish=wish)
        resp.media = {"embedding": done.vectors.tolist()[0] if given else []}
