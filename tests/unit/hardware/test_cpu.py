from __future__ import annotations

from pathlib import Path

from blazar import hardware
from blazar.hardware import cpu
from tests.unit.hardware.test_memory import lay

X86 = "".join(
    f"processor\t: {place}\nmodel name\t: AMD EPYC 7763\nphysical id\t: {place // 4}\ncore id\t\t: {place % 4 // 2}\n"
    f"flags\t\t: fpu vme avx avx2 fma f16c avx512_vnni ht\n\n"
    for place in range(8)
)
ARM = "".join(
    f"processor\t: {place}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd asimddp sve\nCPU implementer\t: 0x41\n\n"
    for place in range(4)
)


def test_cores_and_threads_are_told_apart(tmp_path: Path) -> None:
    found = cpu.probe(lay(tmp_path, {"proc/cpuinfo": X86}))
    assert (found.name, found.physical, found.logical, found.usable) == ("AMD EPYC 7763", 4, 8, 8)
    assert found.features == ("avx", "avx2", "avx512_vnni", "f16c", "fma")


def test_arm_names_no_cores(tmp_path: Path) -> None:
    found = cpu.probe(lay(tmp_path, {"proc/cpuinfo": ARM}))
    assert (found.physical, found.logical, found.features) == (4, 4, ("asimd", "asimddp", "sve"))


def test_a_quota_bounds_what_is_usable(tmp_path: Path) -> None:
    root = lay(tmp_path, {"proc/cpuinfo": X86, "sys/fs/cgroup/cpu.max": "250000 100000\n"})
    assert cpu.probe(root).usable == 3
    (root / "sys/fs/cgroup/cpu.max").write_text("max 100000\n")
    assert cpu.probe(root).usable == 8


def test_a_quota_of_version_one(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": X86, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n"}
    files["sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000\n"
    assert cpu.probe(lay(tmp_path, files)).usable == 1


def test_nothing_to_read_is_one_core_at_least(tmp_path: Path) -> None:
    found = cpu.probe(tmp_path)
    assert found.usable >= 1
    assert found.name == "unknown"


def test_the_whole_machine_is_probed() -> None:
    found = hardware.probe()
    assert found.cpu.logical >= found.cpu.usable >= 1
    assert 0 < hardware.available_memory() <= found.memory.total
