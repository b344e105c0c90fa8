"""A request's turn at an instance: how it stands in the queue, and what it says there of itself."""

from __future__ import annotations

from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING

from blazar.admission.gate import CHAT, HIGH, LOW, NORMAL, Share
from blazar.errors import BadRequest
from blazar.supervisor.seats import Seating

if TYPE_CHECKING:
    from blazar import _native
    from blazar.admission.gate import Place
    from blazar.gateway.errand import Errand
    from blazar.node import Node
    from blazar.supervisor.instance import Instance
    from blazar.supervisor.seats import Seats

_HEAVY = 64 * 1024
_LONGEST_NAME = 128
_PRIORITIES = {"high": HIGH, "low": LOW}


async def enter(node: Node, errand: Errand, instance: Instance, *, lane: int = CHAT, heavy: bool = False) -> None:
    """Wait for a place at ``instance``, held until the errand is over. ``heavy`` costs one class."""
    asked = errand.header(b"x-blazar-priority")
    priority = NORMAL if asked is None else _PRIORITIES.get(asked, NORMAL)
    place = node.gate.place(
        instance.generation,
        instance.name,
        instance.slots,
        priority=min(priority + heavy, LOW),
        lane=lane,
        deadline_ns=_deadline(errand),
        share=_share(errand),
    )
    errand.place = place
    errand.finally_do(partial(_leave, errand, place))
    await place.enter()
    errand.queue_ns = place.waited_ns


def sit(node: Node, errand: Errand, inbound: _native.Inbound, instance: Instance) -> None:
    """Choose the slot of ``instance`` that a request is put into, which is its own until it is over."""
    seating, number = inbound.seating, None
    if seating is not None:
        seats, keep_s = instance.seats, node.config.residency.session_keep_s
        number = seats.take(Seating(*seating), monotonic_ns() / 1e9, session(errand) or "", keep_s)
        if number is not None:
            errand.finally_do(partial(_stand_up, seats, number))
    inbound.sit(number)


def _stand_up(seats: Seats, number: int) -> None:
    seats.leave(number, monotonic_ns() / 1e9)


def heavy(inbound: _native.Inbound) -> bool:
    """Its prompt alone keeps an engine busy for long; images are many bytes and few tokens."""
    return inbound.body_bytes > _HEAVY and not inbound.has_images


def asked_context(errand: Errand) -> int | None:
    """Tokens of context that a header asks for."""
    return _number(errand, b"x-blazar-num-ctx")


def session(errand: Errand) -> str | None:
    """The session that a header names, apart from those of other keys. Raises BadRequest."""
    named = errand.header(b"x-blazar-session")
    if named is None:
        return None
    if not 0 < len(named) <= _LONGEST_NAME or not named.isprintable():
        raise BadRequest(f"The header x-blazar-session takes a name of 1 to {_LONGEST_NAME} characters.")
    return f"{errand.owner}/{named}" if errand.owner else named


def _deadline(errand: Errand) -> int | None:
    wait_ms = _number(errand, b"x-blazar-deadline-ms")
    return None if wait_ms is None else errand.started_ns + wait_ms * 1_000_000


def _number(errand: Errand, header: bytes) -> int | None:
    value = errand.header(header)
    if value is None:
        return None
    if not value.isdecimal() or len(value) > 12:
        raise BadRequest(f"The header {header.decode()} takes a whole number; it has '{value[:40]}'.")
    return int(value)


def _share(errand: Errand) -> Share:
    """Whose turn it is in the queue, and what it may cost."""
    key, cost = errand.key, sum(errand.cost)
    return Share(0, 1, cost) if key is None else Share(key.number, key.entry.weight, cost)


def _leave(errand: Errand, place: Place) -> None:
    place.leave(None if errand.spent is None else sum(errand.spent))
