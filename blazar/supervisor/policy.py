"""What to do about memory: pure decisions from a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec


class Tenant(msgspec.Struct, frozen=True):
    """One instance as the policy sees it. ``room`` is what comes free when it goes; ``growth`` what it was promised and
    has not taken yet; both in bytes. ``used`` orders by last use. ``kept``: it is never sent away for another;
    ``turn``: not yet.
    """

    name: str
    idle: bool
    stopping: bool
    room: int
    growth: int
    used: int
    kept: bool = False
    turn: bool = False


class Decision(msgspec.Struct, frozen=True):
    """``load`` now; ``evict`` the named ones and look again; ``drain`` them: they are in use, and go when nobody holds
    them; ``wait`` until something changes; ``refuse``: nothing here will change it; ``never``: larger than everything.
    """

    act: Literal["load", "evict", "drain", "wait", "refuse", "never"]
    victims: tuple[str, ...] = ()
    free: int = 0


def decide(need: int, available: int, total: int, tenants: Sequence[Tenant]) -> Decision:
    """How to place ``need`` bytes where ``available`` of ``total`` are free now.

    Victims are idle, the least recently used first, and no more of them than are needed; where these do not suffice,
    those in use whose turn is over are to go too, or somebody busy would keep everybody else out for good. While
    somebody is on the way out, nobody else is sent: what comes free is measured, not guessed.
    """
    free = available - sum(tenant.growth for tenant in tenants)
    if need > total:
        return Decision("never", free=max(0, free))
    if need <= free:
        return Decision("load", free=free)
    free = max(0, free)
    if any(tenant.stopping for tenant in tenants):
        return Decision("wait", free=free)
    victims: list[str] = []
    reach = available - sum(tenant.growth for tenant in tenants)
    can_go = [tenant for tenant in tenants if not tenant.kept and not tenant.turn]
    can_go.sort(key=lambda tenant: tenant.used)
    for act, idle in (("evict", True), ("drain", False)):
        for tenant in (tenant for tenant in can_go if tenant.idle is idle):
            if reach >= need:
                break
            victims.append(tenant.name)
            reach += tenant.room
        if reach >= need:
            # Those who sleep hold next to nothing: sent first, they may turn out not to have been worth it.
            for tenant in (tenant for tenant in can_go if tenant.name in victims):
                if tenant.idle and reach - tenant.room >= need:
                    victims.remove(tenant.name)
                    reach -= tenant.room
            return Decision("evict" if act == "evict" else "drain", tuple(victims), free)
    return Decision("wait" if any(not tenant.kept for tenant in tenants) else "refuse", free=free)
