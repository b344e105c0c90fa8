"""Answers from the semantic cache: who gets one, who leaves one, and why not.

Only whole answers of free text, within one key, to requests that are equal but for the last thing that the person said.
Which text is near is told by an embedding model, which sends nobody away to be loaded.
"""

from __future__ import annotations

import asyncio
import logging
from math import isfinite
from time import monotonic_ns
from typing import TYPE_CHECKING, NamedTuple

from blazar.admission.semantic import kind_of
from blazar.errors import BadRequest, BlazarError
from blazar.gateway.errand import Errand
from blazar.gateway.vectors import Wish, embed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from blazar import _native
    from blazar.admission.semantic import Answer
    from blazar.models.catalogue import Model
    from blazar.node import Node

_log = logging.getLogger("blazar.gateway")
_HEADER = "x-blazar-cache"
# An answer that is waited for longer than this might as well be made.
_PATIENCE_S = 3.0


class Wanted(NamedTuple):
    """How near and how fresh an answer must be, and how long one that is left may stay."""

    least: float
    ttl_s: float


class Recall:
    """One request's dealings with the cache. ``found`` is an answer for it, with its nearness; ``told`` is what its
    client hears.
    """

    def __init__(self, node: Node, told: str) -> None:
        self._node = node
        self._place: tuple[bytes, NDArray[np.float32], float] | None = None
        self.found: tuple[Answer, float] | None = None
        self.told = told

    def leave(self, errand: Errand, body: bytes) -> None:
        """The answer was made after all: others may get it."""
        if self._place is not None and not errand.shares:
            kind, vector, stay_s = self._place
            self._node.answers.keep(kind, vector, body, errand.trace, stay_s)

    async def look(self, errand: Errand, inbound: _native.Inbound, model: Model, wanted: Wanted) -> None:
        """Find an answer, or the place of one."""
        answers = self._node.answers
        text, rest, why = inbound.likeness()
        if why:
            answers.counts.bypasses += 1
            self.told = f"bypass; {why}"
            return
        try:
            vector = await self._vector(errand, text)
        except (BlazarError, TimeoutError) as error:
            if errand.refusal is not None:
                raise
            answers.counts.bypasses += 1
            told = error.message if isinstance(error, BlazarError) else f"no vector within {_PATIENCE_S:g} s"
            self.told = f"bypass; {told}"
            _log.info("%s: no answer was looked for: %s", errand.trace, told)
            return
        kind = kind_of(errand.owner, inbound.route, model.name, model.digest, rest)
        self._place = kind, vector, wanted.ttl_s
        self.found = answers.find(kind, vector, least=wanted.least, age_s=wanted.ttl_s)
        if self.found is None:
            answers.counts.misses += 1
            self.told = "miss"
            return
        answers.counts.hits += 1
        answer, nearness = self.found
        age_s = (monotonic_ns() - answer.made_ns) / 1e9
        self.told = f"hit; similarity={nearness:.4f}; age={age_s:.0f}; of={answer.trace}"

    async def _vector(self, errand: Errand, text: str) -> NDArray[np.float32]:
        """Of ``text``, in an errand of its own, whose slot is free before the answer is made."""
        node = self._node
        embedder = node.catalogue.find(node.config.semantic_cache.model)
        side = Errand(errand.trace, errand.headers, errand.key, errand.path)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                made = await embed(
                    node, side, embedder, [text], truncate=False, path="the text", wish=Wish(modest=True)
                )
        finally:
            side.give_everything_back()
        row: NDArray[np.float32] = made.vectors[0]
        return row


async def recalled(node: Node, errand: Errand, inbound: _native.Inbound, model: Model) -> Recall | None:
    """What the cache has for a request; ``None`` for one that it does not concern. Raises BadRequest for a header that
    says nothing.
    """
    settings = node.config.semantic_cache
    asked = errand.header(b"x-blazar-cache")
    if asked is None and settings.mode != "on":
        return None
    if asked is not None and (asked := asked.lower()) not in {"on", "off"}:
        raise BadRequest(f"The header {_HEADER} takes on or off; it has '{asked[:40]}'.")
    wanted = Wanted(
        _number(errand, "threshold", settings.threshold, 0.01, 1.0), _number(errand, "ttl", settings.ttl_s, 1, 86400)
    )
    if asked == "off":
        return None
    if settings.mode == "off" or not settings.model:
        lacks = "semantic_cache.mode is off" if settings.mode == "off" else "semantic_cache.model names no model"
        return Recall(node, f"bypass; {lacks} in the settings")
    recall = Recall(node, "")
    await recall.look(errand, inbound, model, wanted)
    return recall


def _number(errand: Errand, name: str, usual: float, least: float, most: float) -> float:
    said = errand.header(f"{_HEADER}-{name}".encode())
    if said is None:
        return usual
    try:
        value = float(said)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or not least <= value <= most:
        raise BadRequest(
            f"The header {_HEADER}-{name} takes a number from {least:g} to {most:g}; it has '{said[:40]}'."
        )
    return value
