"""The driver's library played by an object with the same calls; the layouts are those of ctypes itself."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import pytest

from blazar.hardware import nvidia

GIB = 1 << 30


class Library:
    """Two GPUs, of which the second can be made not to answer."""

    def __init__(self, *, init: int = 0, mute: Sequence[int] = ()) -> None:
        self.init, self.mute, self.closed = init, mute, False

    def nvmlInit_v2(self) -> int:
        return self.init

    def nvmlShutdown(self) -> int:
        self.closed = True
        return 0

    def nvmlDeviceGetCount_v2(self, out: Any) -> int:
        out._obj.value = 2
        return 0

    def nvmlSystemGetDriverVersion(self, out: Any, size: ctypes.c_uint) -> int:
        out.value = b"580.1"
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, out: Any) -> int:
        out._obj.value = 100 + index.value
        return 0

    def nvmlDeviceGetName(self, handle: ctypes.c_void_p, out: Any, size: ctypes.c_uint) -> int:
        out.value = f"Card {handle.value}".encode()
        return 0

    def nvmlDeviceGetUUID(self, handle: ctypes.c_void_p, out: Any, size: ctypes.c_uint) -> int:
        return 999

    def nvmlDeviceGetMemoryInfo(self, handle: ctypes.c_void_p, out: Any) -> int:
        if handle.value in self.mute:
            return 3
        out._obj.total, out._obj.free = 24 * GIB, 20 * GIB
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, handle: ctypes.c_void_p, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = 9, 0
        return 0


def test_every_gpu_is_listed_and_the_library_let_go() -> None:
    library = Library()
    found = nvidia.probe(lambda name: library)
    assert [(gpu.index, gpu.name, gpu.free, gpu.total) for gpu in found] == [
        (0, "Card 100", 20 * GIB, 24 * GIB),
        (1, "Card 101", 20 * GIB, 24 * GIB),
    ]
    assert (found[0].driver, found[0].capability, found[0].id) == ("580.1", "9.0", "")
    assert library.closed


def test_a_gpu_that_does_not_answer_is_left_out() -> None:
    assert [gpu.index for gpu in nvidia.probe(lambda name: Library(mute=[100]))] == [1]


def test_a_driver_that_does_not_start_has_no_gpus() -> None:
    assert nvidia.probe(lambda name: Library(init=9)) == ()


def test_a_library_without_the_calls_has_no_gpus() -> None:
    assert nvidia.probe(lambda name: object()) == ()


def test_no_library_no_gpus() -> None:
    def load(name: str) -> Any:
        raise OSError(name)

    assert nvidia.probe(load) == ()


def test_this_machine_gives_an_answer() -> None:
    assert isinstance(nvidia.probe(), tuple)


@pytest.mark.parametrize("call", ["nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2"])
def test_any_failing_call_means_fewer_gpus(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Library, call, lambda *words: 15)
    assert nvidia.probe(lambda name: Library()) == ()
