"""The driver's library played by an object with the same calls; the layouts are those of ctypes itself."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import pytest

from blazar.hardware import nvidia
from blazar.hardware.gpu import Gpu

GIB = 1 << 30


class Library:
    """Two GPUs, of which the second can be made not to answer."""

    def __init__(self, *, init: int = 0, mute: Sequence[int] = (), code: int = 15) -> None:
        self.init, self.mute, self.code, self.closed = init, mute, code, False
        # Of each GPU: process, bytes.
        self.running: dict[int, list[tuple[int, int]]] = {100: [], 101: []}

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
            return self.code
        out._obj.total, out._obj.free = 24 * GIB, 20 * GIB
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, handle: ctypes.c_void_p, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = 9, 0
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: ctypes.c_void_p, count: Any, rows: Any) -> int:
        running = self.running[handle.value or 0]
        room, count._obj.value = count._obj.value, len(running)
        if len(running) > room:
            return 7
        for row, (pid, used) in zip(rows, running, strict=False):
            row.pid, row.used = pid, used
        return 0


def test_every_gpu_is_listed_and_the_library_let_go() -> None:
    library = Library()
    found = nvidia.probe(lambda name: library)
    assert [(gpu.index, gpu.name, gpu.free, gpu.total) for gpu in found] == [
        (0, "Card 100", 20 * GIB, 24 * GIB),
        (1, "Card 101", 20 * GIB, 24 * GIB),
    ]
    assert (found[0].driver, found[0].capability, found[0].id) == ("580.1", "9.0", "0")
    assert library.closed


def test_a_gpu_that_does_not_answer_is_left_out() -> None:
    assert [gpu.index for gpu in nvidia.probe(lambda name: Library(mute=[100]))] == [1]


def test_a_chip_that_shares_the_main_memory_says_that_it_has_none_of_its_own() -> None:
    found = nvidia.probe(lambda name: Library(mute=[100], code=3))
    assert [(gpu.index, gpu.unified, gpu.total) for gpu in found] == [(0, True, 0), (1, False, 24 * GIB)]


def test_what_a_process_holds_is_counted_on_each_gpu_where_the_driver_says_it() -> None:
    library = Library()
    driver = nvidia.Driver.open(lambda name: library)
    library.running = {100: [(7, 5), (8, 1), (7, 2)], 101: [(number, 1) for number in range(100, 300)]}
    assert driver.held(7) == {"0": 7, "1": 0}
    assert driver.held(299) == {"0": 0, "1": 1}, "however many there are"
    library.running[101] = [(7, 2**64 - 1)]
    assert driver.held(7) is None
    driver.close()
    assert library.closed
    assert (driver.gpus(), driver.held(7)) == ((), None)


def test_a_variable_of_the_owner_hides_gpus_as_the_runtime_does() -> None:
    one, two = (Gpu(vendor="nvidia", index=number, name="x", id=f"GPU-{number}a", total=1, free=1) for number in (0, 1))
    for wanted, seen in [
        (None, (one, two)), ("0,1", (one, two)), ("1", (two,)), ("1,0", (two, one)), ("GPU-0", (one,)),
        ("", ()), ("-1", ()), ("0,7,1", (one,)), ("GPU-", ()), ("none", ()),
    ]:  # fmt: skip
        assert nvidia.visible((one, two), wanted) == seen, wanted


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
