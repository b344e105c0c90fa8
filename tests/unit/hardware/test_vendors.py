"""AMD's and Apple's GPUs, by what their kernels say. The trees are cut down from what the kernel's documentation of the
two drivers shows.
"""

from __future__ import annotations

from pathlib import Path

from blazar.hardware import amd, apple

GIB = 1 << 30


def node(root: Path, number: int, minor: int = 0, vram: tuple[int, int] | None = None, **facts: int) -> None:
    folder = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
    folder.mkdir(parents=True)
    facts = {"cpu_cores_count": 0, "simd_count": 0, "vendor_id": 0x1002, "drm_render_minor": minor, **facts}
    (folder / "properties").write_text("".join(f"{key} {value}\n" for key, value in facts.items()))
    if minor:
        device = root / f"sys/class/drm/renderD{minor}/device"
        device.mkdir(parents=True)
        if vram:
            (device / "mem_info_vram_total").write_text(f"{vram[0]}\n")
            (device / "mem_info_vram_used").write_text(f"{vram[1]}\n")


def test_cards_and_chips_are_told_apart(tmp_path: Path) -> None:
    node(tmp_path, 0, cpu_cores_count=16, vendor_id=0)
    node(tmp_path, 1, 128, (24 * GIB, GIB), simd_count=192, gfx_target_version=110000, unique_id=0xABC)
    node(tmp_path, 2, 129, (GIB // 2, 0), simd_count=80, cpu_cores_count=32, gfx_target_version=110501)
    node(tmp_path, 10, 130, simd_count=64)
    card, chip = amd.probe(tmp_path)
    assert (card.id, card.total, card.free, card.unified) == ("GPU-0000000000000abc", 24 * GIB, 23 * GIB, False)
    assert (card.vendor, card.capability) == ("amd", "11.0")
    assert (chip.unified, chip.capability) == (True, "11.5")


def test_a_machine_without_them_has_none(tmp_path: Path) -> None:
    assert amd.probe(tmp_path) == ()
    broken = tmp_path / "sys/class/kfd/kfd/topology/nodes/0"
    broken.mkdir(parents=True)
    (broken / "properties").write_bytes(b"simd_count\nvendor_id \xff\n\n")
    assert amd.probe(tmp_path) == ()


def test_apple() -> None:
    assert apple.probe("Linux", "x86_64") == ()
    assert apple.probe("Darwin", "x86_64") == ()
    assert [gpu.unified for gpu in apple.probe("Darwin", "arm64")] == [True]
