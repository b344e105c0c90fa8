"""How long an idle instance stays, and its going when that is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blazar.supervisor.instance import Instance

# The loop's timers count in milliseconds and may ring that much too early.
_TIMER_S = 0.001
LONGEST_S = 10 * 365 * 86400.0


class Stay:
    """``leave`` has an idle instance go, for a reason; ``rested`` hears that one is idle."""

    def __init__(self, leave: Callable[[Instance, str], object], rested: Callable[[], None]) -> None:
        self._leave = leave
        self._rested = rested

    def rest(self, instance: Instance, keep_alive_s: float | None = None) -> None:
        """Whenever an instance may have become idle: have it leave, now or later, and tell who waits for room.

        ``keep_alive_s`` is how long it stays from now on: ``None`` as before, negative for good.
        """
        if keep_alive_s is not None:
            instance.keep_alive_s = min(keep_alive_s, LONGEST_S)
        if not instance.idle:
            return
        self._rested()
        stay_s = instance.keep_alive_s
        if instance.draining:
            self._leave(instance, instance.draining)
        elif stay_s == 0:
            self._leave(instance, "keep_alive is over")
        elif stay_s > 0:
            self._arm(instance, asyncio.get_running_loop().time() + stay_s)
        else:
            instance.disarm()

    def expires_ns(self, instance: Instance, now_ns: int) -> int | None:
        """When it leaves if nobody asks for it any more, on the clock of ``now_ns``; ``None`` for never."""
        left_s = instance.keep_alive_s
        if left_s < 0:
            return None
        if instance.idle:
            left_s = max(0.0, instance.idle_until - asyncio.get_running_loop().time())
        return now_ns + int(left_s * 1e9)

    def _arm(self, instance: Instance, at: float) -> None:
        """Look at ``at`` (the loop's time) whether it is still idle. A timer that rings too early is left to ring."""
        instance.idle_until = at
        if instance.timer is None or instance.timer_at > at:
            instance.disarm()
            instance.timer_at = at
            instance.timer = asyncio.get_running_loop().call_at(at, self._expire, instance)

    def _expire(self, instance: Instance) -> None:
        instance.timer = None
        if not instance.idle:
            return
        if instance.idle_until > asyncio.get_running_loop().time() + _TIMER_S:
            self._arm(instance, instance.idle_until)
        else:
            self._leave(instance, f"idle for {instance.keep_alive_s:g} s")
