"""The whole machine in one value."""

from __future__ import annotations

import functools
import os

import msgspec

from blazar.hardware import amd, apple, cpu, memory, nvidia
from blazar.hardware.cpu import Cpu
from blazar.hardware.gpu import Gpu
from blazar.hardware.memory import Memory


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What there is, as it was when it was probed; free memory changes at once."""

    cpu: Cpu
    memory: Memory
    gpus: tuple[Gpu, ...]


def probe() -> Machine:
    """Look at this machine. Never fails: what cannot be found out is missing from the answer."""
    return Machine(cpu=cpu.probe(), memory=memory.probe(), gpus=gpus())


def available_memory() -> int:
    """Bytes of main memory that can be taken now, read anew each time."""
    return memory.available()


def total_memory() -> int:
    """Bytes of main memory, or of what the control group grants."""
    return memory.probe().total


def usable_cores() -> int:
    """Physical cores that this process may keep busy at once."""
    found = cpu.probe()
    return min(found.physical, found.usable)


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that can be planned with, as they are now."""
    seen = nvidia.visible(_driver().gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    return seen + amd.probe() + apple.probe()


def gpu_memory_of(pid: int) -> dict[str, int] | None:
    """Bytes that a process holds, by the ids of the GPUs; None where nobody says."""
    return _driver().held(pid)


@functools.cache
def _driver() -> nvidia.Driver:
    return nvidia.Driver.open()
