"""From a started child to a model that answers: readiness, and whether the load still moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from blazar.errors import ModelLoadTimeout
from blazar.supervisor import effects, probe
from blazar.supervisor.effects import Stat
from blazar.supervisor.process import Child

if TYPE_CHECKING:
    from blazar.engines.base import Address
    from blazar.supervisor.instance import Instance

_FIRST_ASK_S = 0.005
_LAST_ASK_S = 0.1
_ANSWER_S = 5.0
_LOOK_S = 0.25
_WAKE_S = 3600.0
# A thread that naps and polls is no progress; one that works a twentieth of the time is.
_LEAST_CPU = 0.05
_LEAST_BYTES = 64 * 1024
_LAST_WORDS = 3
# Below this, the program itself is larger than the model.
_LEAST_WEIGHTS = 64 * 1024 * 1024


async def until_ready(instance: Instance, stall_s: float, progressed: Callable[[float | None], None]) -> None:
    """Return when this model answers at the child's address, or when the child has ended.

    Raises ModelLoadTimeout when neither a log line, nor CPU time, nor memory, nor bytes read moved for ``stall_s``
    seconds. ``progressed`` hears the fraction that is read, when it has grown.
    """
    child = instance.child
    assert child is not None
    pace = _Pace(child, instance.model.size)
    ask_s = _FIRST_ASK_S
    while child.code is None:
        address = _address(instance, child)
        if address is not None and await _answers(instance, address):
            return
        if pace.look() and pace.fraction is not None:
            progressed(pace.fraction)
        if pace.still_s > stall_s:
            raise ModelLoadTimeout(
                instance.name, pace.still_s, instance.adapter.telling(child.last_lines(), _LAST_WORDS)
            )
        await child.spoke.wait(ask_s)
        ask_s = min(ask_s * 1.5, _LAST_ASK_S)
    await child.over.wait()


async def until_awake(instance: Instance, stall_s: float) -> None:
    """Wake a child that sleeps: return when it has loaded its model again, or has ended.

    Raises ModelLoadTimeout as :func:`until_ready` does.
    """
    child = instance.child
    assert child is not None
    pace = _Pace(child, instance.model.size)
    question = asyncio.ensure_future(_woken(instance))
    try:
        while child.code is None:
            await asyncio.wait({question}, timeout=_LAST_ASK_S)
            if question.done():
                if question.result():
                    return
                question = asyncio.ensure_future(_woken(instance))
                await child.spoke.wait(_LAST_ASK_S)
            pace.look()
            if pace.still_s > stall_s:
                raise ModelLoadTimeout(
                    instance.name, pace.still_s, instance.adapter.telling(child.last_lines(), _LAST_WORDS)
                )
    finally:
        question.cancel()
    await child.over.wait()


async def _woken(instance: Instance) -> bool:
    """Ask something that its own loop must answer, for as long as it takes."""
    answer = await probe.get(instance.address, instance.adapter.vital, instance.secret, _WAKE_S)
    return answer is not None and answer[0] == 200 and not await sleeps(instance)


async def sleeps(instance: Instance) -> bool:
    """Whether its engine has let go of the model. Asking does not wake it."""
    match await _json(instance.address, "/props", instance):
        case {"is_sleeping": True}:
            return True
    return False


def _address(instance: Instance, child: Child) -> Address | None:
    """Where to ask: known from the start on a Unix socket, read from the log on TCP."""
    if instance.address.unix or instance.address.port:
        return instance.address
    for line in child.last_lines():
        heard = instance.adapter.heard(line)
        if heard is not None:
            instance.address = heard
            return heard
    return None


async def _answers(instance: Instance, address: Address) -> bool:
    """Whether what listens there has loaded, knows the secret's door, and serves this model; takes its true sizes."""
    health = await probe.get(address, "/health", instance.secret, _ANSWER_S)
    if health is None or health[0] != 200:
        return False
    if instance.alias not in _names(await _json(address, "/v1/models", instance)):
        return False
    props = await _json(address, "/props", instance)
    match props:
        case {"total_slots": int(slots), "default_generation_settings": {"n_ctx": int(context)}}:
            instance.slots, instance.context = slots, context
            return True
    return False


def _names(models: Any) -> set[str]:
    match models:
        case {"data": [*rows]}:
            return {
                name for row in rows if isinstance(row, dict) for name in (row.get("id"), *(row.get("aliases") or ()))
            }
    return set()


async def _json(address: Address, path: str, instance: Instance) -> Any:
    answer = await probe.get(address, path, instance.secret, _ANSWER_S)
    if answer is None or answer[0] != 200:
        return None
    try:
        return msgspec.json.decode(answer[1])
    except msgspec.DecodeError:
        return None


class _Pace:
    """Whether a child still moves. ``still_s`` is how long it has not."""

    def __init__(self, child: Child, size: int) -> None:
        self._child = child
        self._size = size
        self._moved = self._looked = time.monotonic()
        self._cpu_s = 0.0
        self._lines = self._resident = self._read = 0
        self.fraction: float | None = None

    @property
    def still_s(self) -> float:
        return time.monotonic() - self._moved

    def look(self) -> bool:
        """Look again, at most every quarter of a second; says whether the fraction has grown."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S and self._child.lines_seen == self._lines:
            return False
        stat = Stat.read(self._child.pid)
        if stat is None:
            return False
        read = effects.read_bytes(self._child.pid)
        if (
            self._child.lines_seen != self._lines
            or stat.cpu_s - self._cpu_s > _LEAST_CPU * (now - self._looked)
            or abs(stat.resident - self._resident) >= _LEAST_BYTES
            or read - self._read >= _LEAST_BYTES
        ):
            self._moved = now
        self._looked, self._lines, self._cpu_s = now, self._child.lines_seen, stat.cpu_s
        self._resident, self._read = stat.resident, read
        return self._advance(max(stat.resident, read))

    def _advance(self, taken: int) -> bool:
        """Weights are read or mapped: either shows how much of the file has passed."""
        if self._size < _LEAST_WEIGHTS:
            return False
        fraction = round(min(taken / self._size, 0.99), 2)
        if self.fraction is not None and fraction <= self.fraction:
            return False
        self.fraction = fraction
        return True
