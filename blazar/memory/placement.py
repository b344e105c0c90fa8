"""Which models fit in memory together. Pure: sizes in, a plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

Bytes = Mapping[str, int]


class Wish(msgspec.Struct, frozen=True):
    """A model that somebody wants: ``ways`` are where it can go, bytes by pool, the best first. ``pinned`` ones come
    first, then the most recently ``used``, on any clock.
    """

    name: str
    ways: tuple[Bytes, ...]
    used: int = 0
    pinned: bool = False


class Place(msgspec.Struct, frozen=True):
    """What becomes of a wish that takes ``need`` bytes. ``together``: it stays, beside all others that do, and ``left``
    bytes remain of the pools that it is in; ``instead``: it fits once those ``without`` have left, the longest unused
    first; ``never``: it is larger than everything. ``pools`` are the GPUs that have some of it.
    """

    name: str
    need: int
    act: Literal["together", "instead", "never"]
    left: int
    without: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()


def together(wishes: Sequence[Wish], budget: Bytes) -> list[Place]:
    """The plan for ``budget``: whoever comes first stays if it fits beside those before it."""
    order = sorted(wishes, key=lambda wish: (not wish.pinned, -wish.used, wish.name))
    left, staying = dict(budget), list[tuple[Wish, Bytes]]()
    places: list[Place] = []
    for wish in order:
        way = next((way for way in wish.ways if _fits(way, left)), None)
        if way is not None:
            _take(left, way, 1)
            staying.append((wish, way))
            places.append(_place(wish, way, "together", left))
    there = {wish.name for wish, _ in staying}
    places += [_instead(wish, staying, dict(left)) for wish in order if wish.name not in there]
    return places


def _instead(wish: Wish, staying: Sequence[tuple[Wish, Bytes]], left: dict[str, int]) -> Place:
    """Those leave that were not used for the longest time, and none whose leaving turns out not to be needed."""
    leaving: list[tuple[Wish, Bytes]] = []
    before = dict(left)
    for other, held in reversed(staying):
        if any(_fits(way, left) for way in wish.ways):
            break
        if not other.pinned:
            leaving.append((other, held))
            _take(left, held, -1)
    way = next((way for way in wish.ways if _fits(way, left)), None)
    if way is None:
        return _place(wish, wish.ways[0], "never", before)
    for other, held in reversed(leaving):
        _take(left, held, 1)
        if _fits(way, left):
            leaving.remove((other, held))
        else:
            _take(left, held, -1)
    _take(left, way, 1)
    return _place(wish, way, "instead", left, tuple(other.name for other, _ in leaving))


def _place(
    wish: Wish, way: Bytes, act: Literal["together", "instead", "never"], left: Bytes, without: tuple[str, ...] = ()
) -> Place:
    pools = [pool for pool, held in way.items() if held]
    remain = sum(left.get(pool, 0) for pool in pools) if pools else sum(left.values())
    return Place(wish.name, sum(way.values()), act, remain, without, tuple(pool for pool in pools if pool))


def _fits(way: Bytes, left: Bytes) -> bool:
    return all(held <= left.get(pool, 0) for pool, held in way.items())


def _take(left: dict[str, int], way: Bytes, sign: int) -> None:
    for pool, held in way.items():
        left[pool] = left.get(pool, 0) - sign * held
