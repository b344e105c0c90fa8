"""What fits, and who must go for it to fit. Pure: a snapshot in, a decision out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from blazar.memory.footprint import Footprint


class Resident(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded model. ``bytes`` come free when it goes; ``last_used`` orders by age on any clock; ``busy`` and
    ``pinned`` ones stay.
    """

    name: str
    bytes: int
    last_used: int
    busy: bool = False
    pinned: bool = False


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """``fits`` now; ``evict`` the named ones first, in that order; ``wait`` for busy ones; or ``too_large`` for the
    machine. ``need`` and ``free`` are the numbers that decided.
    """

    verdict: Literal["fits", "evict", "wait", "too_large"]
    need: int
    free: int
    evict: tuple[str, ...] = ()


def admit(need: Footprint | int, free: int, residents: Sequence[Resident], *, total: int | None = None) -> Placement:
    """Decide for a newcomer of ``need`` bytes while ``free`` are free.

    ``total`` is what there is in all, where that is known; without it, what is free and what the residents hold. The
    victims are the least recently used idle ones, and of those none whose leaving turns out not to be needed.
    """
    size = need if isinstance(need, int) else need.total
    most = free + sum(resident.bytes for resident in residents)
    if size > (most if total is None else total):
        return Placement(verdict="too_large", need=size, free=free)
    if size <= free:
        return Placement(verdict="fits", need=size, free=free)
    victims: list[Resident] = []
    missing = size - free
    for resident in sorted(residents, key=lambda one: (one.last_used, one.name)):
        if missing <= 0:
            break
        if not (resident.busy or resident.pinned):
            victims.append(resident)
            missing -= resident.bytes
    if missing > 0:
        return Placement(verdict="wait", need=size, free=free)
    return Placement(verdict="evict", need=size, free=free, evict=_needed(victims, -missing))


def _needed(victims: Sequence[Resident], spare: int) -> tuple[str, ...]:
    """Spare the youngest first: a large old one may have made a smaller one's leaving needless."""
    kept: set[str] = set()
    for resident in reversed(victims):
        if resident.bytes <= spare:
            spare -= resident.bytes
            kept.add(resident.name)
    return tuple(resident.name for resident in victims if resident.name not in kept)
