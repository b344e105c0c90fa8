"""The sleep of idle models: their engines give the memory back by a clock of their own, and keep process and port.

Blazar only notices. Whoever sleeps counts for what it still holds, so that others may load where it was; it therefore
needs room again before it is woken, or two would end in the memory of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from blazar.supervisor import loading, probe
from blazar.supervisor.state import State

if TYPE_CHECKING:
    from blazar.clock import Clock
    from blazar.supervisor.bank import Bank
    from blazar.supervisor.instance import Instance

# An engine's clock began with its last answer; ours, a moment later, with the lease that was given back.
_LATE_S = 0.25
_ASK_EVERY_S, _ASKS = 1.0, 20
_ANSWER_S = 10.0


class House(Protocol):
    """Whose instances they are."""

    def is_kept(self, instance: Instance) -> bool:
        """It is not sent away for another."""

    def fell_asleep(self, instance: Instance) -> None:
        """Its engine has let go of the model."""


class Slumber:
    """One timer for each ready instance whose engine sleeps; requests do not touch it."""

    def __init__(self, clock: Clock, house: House, bank: Bank) -> None:
        self._clock = clock
        self._bank = bank
        self._house = house
        self._timers: dict[Instance, asyncio.TimerHandle] = {}
        self._looks: dict[Instance, asyncio.Task[None]] = {}

    def begin(self, instance: Instance) -> None:
        """It has become ready."""
        if instance.settings.sleep_s:
            self._ring(instance, instance.settings.sleep_s / 2)

    def forget(self, instance: Instance) -> None:
        """It goes."""
        if (timer := self._timers.pop(instance, None)) is not None:
            timer.cancel()
        if (look := self._looks.pop(instance, None)) is not None:
            look.cancel()

    def _ring(self, instance: Instance, after_s: float) -> None:
        self._timers[instance] = asyncio.get_running_loop().call_later(after_s, self._rang, instance)

    def _rang(self, instance: Instance) -> None:
        del self._timers[instance]
        if instance.state is not State.READY:
            return
        sleep_s = instance.settings.sleep_s
        idle_s = self._clock.monotonic_ns() / 1e9 - instance.used_at if instance.idle else 0.0
        if self._house.is_kept(instance) or instance.keep_alive_s < 0:
            self._look(instance, self._rouse(instance))
        elif idle_s >= sleep_s:
            self._look(instance, self._watch(instance))
        elif idle_s >= sleep_s / 2 - _LATE_S:
            # What it has read will be gone when it is seen to sleep.
            self._look(instance, self._bank.leaving(instance), max(sleep_s - idle_s + _LATE_S, _LATE_S))
        else:
            self._ring(instance, max(sleep_s - idle_s + _LATE_S, sleep_s / 2))

    def _look(self, instance: Instance, how: Coroutine[Any, Any, None], again_s: float | None = None) -> None:
        look = self._looks[instance] = asyncio.get_running_loop().create_task(how)
        look.add_done_callback(lambda _: self._looked(instance, again_s))

    def _looked(self, instance: Instance, again_s: float | None) -> None:
        if self._looks.pop(instance, None) is not None and instance.state is State.READY:
            self._ring(instance, instance.settings.sleep_s / 2 if again_s is None else again_s)

    async def _rouse(self, instance: Instance) -> None:
        """Have the engine's clock begin anew."""
        await probe.get(instance.address, instance.adapter.vital, instance.secret, _ANSWER_S)

    async def _watch(self, instance: Instance) -> None:
        """Until it sleeps, or somebody uses it, or it evidently will not."""
        for _ in range(_ASKS):
            used_at = instance.used_at
            sleeps = await loading.sleeps(instance)
            if not instance.idle or instance.used_at != used_at or instance.state is not State.READY:
                return
            if sleeps:
                self._house.fell_asleep(instance)
                return
            await asyncio.sleep(_ASK_EVERY_S)
