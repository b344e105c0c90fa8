"""Which models fit in memory together. Pure: sizes in, a plan out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec


class Wish(msgspec.Struct, frozen=True):
    """A model that somebody wants: ``need`` in bytes; ``pinned`` ones come first, then the most recently ``used``, on
    any clock.
    """

    name: str
    need: int
    used: int = 0
    pinned: bool = False


class Place(msgspec.Struct, frozen=True):
    """What becomes of a wish. ``together``: it stays, beside all others that do, and ``left`` bytes remain;
    ``instead``: it fits once those ``without`` have left, the longest unused first; ``never``: it is larger than
    everything.
    """

    name: str
    need: int
    act: Literal["together", "instead", "never"]
    left: int
    without: tuple[str, ...] = ()


def together(wishes: Sequence[Wish], budget: int) -> list[Place]:
    """The plan for ``budget`` bytes: whoever comes first stays if it fits beside those before it."""
    order = sorted(wishes, key=lambda wish: (not wish.pinned, -wish.used, wish.name))
    left, staying = budget, list[Wish]()
    places: list[Place] = []
    for wish in order:
        if wish.need <= left:
            left -= wish.need
            staying.append(wish)
            places.append(Place(wish.name, wish.need, "together", left))
    for wish in order:
        if wish not in staying:
            places.append(_instead(wish, staying, left, budget))
    return places


def _instead(wish: Wish, staying: Sequence[Wish], left: int, budget: int) -> Place:
    """Those leave that were not used for the longest time, and none whose leaving turns out not to be needed."""
    if wish.need > budget:
        return Place(wish.name, wish.need, "never", left)
    leaving: list[Wish] = []
    for other in reversed(staying):
        if left >= wish.need:
            break
        if not other.pinned:
            leaving.append(other)
            left += other.need
    if left < wish.need:
        return Place(wish.name, wish.need, "never", left)
    for other in reversed(leaving):
        if left - other.need >= wish.need:
            leaving.remove(other)
            left -= other.need
    return Place(wish.name, wish.need, "instead", left - wish.need, tuple(other.name for other in leaving))
