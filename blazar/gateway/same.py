"""When two requests are the same: then one answer does for both."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blazar import _native
    from blazar.gateway.errand import Errand
    from blazar.models.catalogue import Model
    from blazar.node import Node

# What headers say that an answer, how soon it comes, or what it leaves behind, depends on.
_SAYING = (
    b"x-blazar-num-ctx",
    b"x-blazar-enforce",
    b"x-blazar-session",
    b"x-blazar-priority",
    b"x-blazar-deadline-ms",
)


def flight_of(node: Node, errand: Errand, inbound: _native.Inbound, model: Model) -> Hashable | None:
    """What a whole answer depends on; None where an equal request is to have an answer of its own."""
    wanted = node.config.admission.single_flight
    if wanted == "off" or (wanted == "determined" and not inbound.determined) or not errand.body:
        return None
    return (inbound.route, model.name, errand.body, *_said(errand))


def vectors_of(node: Node, errand: Errand, model: Model, asked: bytes) -> Hashable | None:
    """The same for what is never drawn at random."""
    if node.config.admission.single_flight == "off":
        return None
    return ("vectors", model.name, asked, *_said(errand))


def shared(errand: Errand) -> list[tuple[str, str]]:
    """A header that says whose answer it is, where it was made for another."""
    return [("x-blazar-single-flight", errand.shares)] if errand.shares else []


def _said(errand: Errand) -> tuple[Hashable, ...]:
    return (errand.owner, *(errand.headers.get(name) for name in _SAYING))
