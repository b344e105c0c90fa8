"""NVIDIA GPUs through the driver's own management library, when it is there. Never an error: no library, no GPUs.

Source of the layouts and of the codes: the library's public header, ``nvml.h``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from blazar.hardware.gpu import Gpu

_LIBRARY = "libnvidia-ml.so.1"
_TEXT = 96
_NOT_SUPPORTED, _INSUFFICIENT_SIZE = 3, 7
_UNKNOWN = 2**64 - 1
_MEMORY_CLOCK = 2
_PROCESSES = 64


class _MemoryInfo(ctypes.Structure):
    """The library's own layout: three counts of bytes."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _ProcessInfo(ctypes.Structure):
    """The library's own layout: ``used`` in bytes, all ones where the driver does not say."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def probe(load: Callable[[str], Any] = ctypes.CDLL) -> tuple[Gpu, ...]:
    """The GPUs in the driver's order; () without driver, library or permission. ``load`` opens the library."""
    driver = Driver.open(load)
    try:
        return driver.gpus()
    finally:
        driver.close()


class Driver:
    """The library, opened once: to open it takes far longer than to ask it."""

    def __init__(self, library: Any) -> None:
        self._library = library

    @classmethod
    def open(cls, load: Callable[[str], Any] = ctypes.CDLL) -> Driver:
        """A driver without GPUs where there is none."""
        try:
            library = load(_LIBRARY)
            return cls(library if library.nvmlInit_v2() == 0 else None)
        except (OSError, AttributeError):  # AttributeError: older or odder than any driver that the engines run on
            return cls(None)

    def close(self) -> None:
        """Let go of it."""
        library, self._library = self._library, None
        if library is not None:
            library.nvmlShutdown()

    def gpus(self) -> tuple[Gpu, ...]:
        """As they are now, in the driver's order."""
        try:
            return tuple(self._gpus())
        except AttributeError:
            return ()

    def held(self, pid: int) -> dict[str, int] | None:
        """Bytes that a process holds, by the ids of the GPUs; None where the driver does not say."""
        try:
            found = {self._id(handle, index): self._used(handle, pid) for index, handle in self._handles()}
        except AttributeError:
            return None
        known = {id_: used for id_, used in found.items() if used is not None}
        return known if found and len(known) == len(found) else None

    def _handles(self) -> Iterator[tuple[int, ctypes.c_void_p]]:
        library, count = self._library, ctypes.c_uint()
        if library is None or library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) == 0:
                yield index, handle

    def _gpus(self) -> Iterator[Gpu]:
        library = self._library
        for index, handle in self._handles():
            memory = _MemoryInfo()
            code = library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
            # On chips that share the processor's memory, it is this question that is not supported. Another GPU that
            # does not say how much it holds cannot be planned with.
            if code not in {0, _NOT_SUPPORTED}:
                continue
            major, minor = ctypes.c_int(), ctypes.c_int()
            library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
            yield Gpu(
                vendor="nvidia",
                index=index,
                name=_text(library.nvmlDeviceGetName, handle) or "NVIDIA GPU",
                id=self._id(handle, index),
                total=memory.total,
                free=memory.free,
                driver=_text(library.nvmlSystemGetDriverVersion),
                capability=f"{major.value}.{minor.value}" if major.value else "",
                unified=code == _NOT_SUPPORTED,
                bandwidth=self._bandwidth(handle),
            )

    def _bandwidth(self, handle: ctypes.c_void_p) -> int:
        """Two transfers with each tick of the memory's highest clock, over the whole bus."""
        bits, mhz = ctypes.c_uint(), ctypes.c_uint()
        try:
            width = self._library.nvmlDeviceGetMemoryBusWidth(handle, ctypes.byref(bits))
            clock = self._library.nvmlDeviceGetMaxClockInfo(handle, ctypes.c_uint(_MEMORY_CLOCK), ctypes.byref(mhz))
        except AttributeError:
            return 0
        return 0 if width or clock else 2 * mhz.value * 1_000_000 * bits.value // 8

    def _id(self, handle: ctypes.c_void_p, index: int) -> str:
        return _text(self._library.nvmlDeviceGetUUID, handle) or str(index)

    def _used(self, handle: ctypes.c_void_p, pid: int) -> int | None:
        room = _PROCESSES
        while True:
            count, rows = ctypes.c_uint(room), (_ProcessInfo * room)()
            code = self._library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), rows)
            if code != _INSUFFICIENT_SIZE:
                break
            room = max(count.value, room) * 2
        if code != 0:
            return None
        mine = [row.used for row in rows[: count.value] if row.pid == pid]
        return None if _UNKNOWN in mine else sum(mine)


def _text(call: Any, *handle: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(_TEXT)
    return buffer.value.decode(errors="replace") if call(*handle, buffer, ctypes.c_uint(_TEXT)) == 0 else ""


def visible(gpus: tuple[Gpu, ...], wanted: str | None) -> tuple[Gpu, ...]:
    """Those that ``CUDA_VISIBLE_DEVICES`` leaves: indexes in the driver's order, or the beginnings of ids; what comes
    after the first that does not exist is not seen. ``None``: all.
    """
    if wanted is None:
        return gpus
    found = list[Gpu]()
    for word in (word.strip() for word in wanted.split(",")):
        named = bool(word) and not word.isdigit()
        fits = [gpu for gpu in gpus if str(gpu.index) == word or (named and gpu.id.startswith(word))]
        if len(fits) != 1:
            break
        found += fits
    return tuple(found)
