"""What to do about memory: pure decisions from a snapshot.

Memory is in pools: the machine's own, and one for each GPU. Bytes by pool are a mapping; a pool that it does not name
counts as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from blazar.memory.layouts import Layout

Bytes = Mapping[str, int]
Act = Literal["load", "evict", "drain", "wait", "refuse", "never"]


class Tenant(msgspec.Struct, frozen=True):
    """One instance as the policy sees it. ``room`` is what comes free when it goes; ``growth`` what it was promised and
    has not taken yet. ``used`` orders by last use. ``kept``: it is never sent away for another; ``turn``: not yet.
    """

    name: str
    idle: bool
    stopping: bool
    room: Bytes
    growth: Bytes
    used: int
    kept: bool = False
    turn: bool = False


class Decision(msgspec.Struct, frozen=True):
    """``load`` now; ``evict`` the named ones and look again; ``drain`` them: they are in use, and go when nobody holds
    them; ``wait`` until something changes; ``refuse``: nothing here will change it; ``never``: larger than everything.
    ``need`` and ``free`` are of the ``pool`` that lacks most.
    """

    act: Act
    victims: tuple[str, ...] = ()
    free: int = 0
    need: int = 0
    pool: str = ""


_ORDER: tuple[Act, ...] = ("load", "evict", "drain", "wait", "refuse", "never")


def choose(
    layouts: Sequence[Layout], available: Bytes, total: Bytes, tenants: Sequence[Tenant]
) -> tuple[Decision, Layout]:
    """The layout that disturbs others least: who loads at once comes before who sends idle ones away, who sends away
    what was not used for the longest time before others. Of equals the first.
    """
    used = {tenant.name: tenant.used for tenant in tenants}

    def trouble(choice: tuple[Decision, Layout]) -> tuple[int, int]:
        act, victims = choice[0].act, choice[0].victims
        return _ORDER.index(act), max((used[name] for name in victims), default=0)

    return min(((decide(layout.need, available, total, tenants), layout) for layout in layouts), key=trouble)


def decide(need: Bytes, available: Bytes, total: Bytes, tenants: Sequence[Tenant]) -> Decision:
    """How to place ``need`` where ``available`` of ``total`` is free now.

    Victims are idle, the least recently used first, and no more of them than are needed; where these do not suffice,
    those in use whose turn is over are to go too, or somebody busy would keep everybody else out for good. While
    somebody is on the way out, nobody else is sent: what comes free is measured, not guessed.
    """
    reach = {
        pool: available.get(pool, 0) - sum(tenant.growth.get(pool, 0) for tenant in tenants)
        for pool, held in need.items()
        if held
    }
    tight = max(reach, key=lambda pool: need[pool] - reach[pool], default="")

    def said(act: Act, victims: tuple[str, ...] = (), pool: str = tight) -> Decision:
        return Decision(act, victims, free=free.get(pool, 0), need=need.get(pool, 0), pool=pool)

    free = {pool: max(0, bytes_) for pool, bytes_ in reach.items()}
    huge = next((pool for pool in reach if need[pool] > total.get(pool, 0)), None)
    if huge is not None:
        return said("never", pool=huge)
    short = {pool for pool in reach if need[pool] > reach[pool]}
    if not short:
        return said("load")
    # Who holds nothing of what is missing is of no use here.
    there = [tenant for tenant in tenants if any(tenant.room.get(pool, 0) for pool in short)]
    if any(tenant.stopping for tenant in there):
        return said("wait")
    victims: list[Tenant] = []
    can_go = [tenant for tenant in there if not tenant.kept and not tenant.turn]
    can_go.sort(key=lambda tenant: tenant.used)
    ways: tuple[tuple[Act, bool], ...] = (("evict", True), ("drain", False))
    for act, idle in ways:
        for tenant in (tenant for tenant in can_go if tenant.idle is idle):
            if not _short(need, reach):
                break
            victims.append(tenant)
            _free(reach, tenant, 1)
        if not _short(need, reach):
            # Those who hold next to nothing of it: sent first, they may turn out not to have been worth it.
            for tenant in [tenant for tenant in victims if tenant.idle]:
                _free(reach, tenant, -1)
                if _short(need, reach):
                    _free(reach, tenant, 1)
                else:
                    victims.remove(tenant)
            return said(act, tuple(one.name for one in victims))
    return said("wait" if any(not tenant.kept for tenant in there) else "refuse")


def _short(need: Bytes, reach: Bytes) -> bool:
    return any(need[pool] > free for pool, free in reach.items())


def _free(reach: dict[str, int], tenant: Tenant, sign: int) -> None:
    for pool in reach:
        reach[pool] += sign * tenant.room.get(pool, 0)
