"""NVIDIA GPUs through the driver's own management library, when it is there. Never an error: no library, no GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from blazar.hardware.gpu import Gpu

_LIBRARY = "libnvidia-ml.so.1"
_TEXT = 96


class _MemoryInfo(ctypes.Structure):
    """The library's own layout: three counts of bytes."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def probe(load: Callable[[str], Any] = ctypes.CDLL) -> tuple[Gpu, ...]:
    """The GPUs in the driver's order; () without driver, library or permission. ``load`` opens the library."""
    try:
        library = load(_LIBRARY)
    except OSError:
        return ()
    try:
        if library.nvmlInit_v2() != 0:
            return ()
        try:
            return tuple(_gpus(library))
        finally:
            library.nvmlShutdown()
    except AttributeError:  # a library older or odder than any driver that the engines run on
        return ()


def _gpus(library: Any) -> Iterator[Gpu]:
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return
    driver = _text(library.nvmlSystemGetDriverVersion)
    for index in range(count.value):
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) != 0:
            continue
        memory = _MemoryInfo()
        if library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
            continue  # a GPU that does not say how much it holds cannot be planned with
        major, minor = ctypes.c_int(), ctypes.c_int()
        library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
        yield Gpu(
            vendor="nvidia",
            index=index,
            name=_text(library.nvmlDeviceGetName, handle) or "NVIDIA GPU",
            id=_text(library.nvmlDeviceGetUUID, handle),
            total=memory.total,
            free=memory.free,
            driver=driver,
            capability=f"{major.value}.{minor.value}" if major.value else "",
        )


def _text(call: Any, *handle: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(_TEXT)
    return buffer.value.decode(errors="replace") if call(*handle, buffer, ctypes.c_uint(_TEXT)) == 0 else ""
