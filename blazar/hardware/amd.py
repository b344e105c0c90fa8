"""AMD GPUs as the kernel's driver describes them. Never an error: no driver, no GPUs.

Sources: the kernel's documentation of amdgpu (``mem_info_vram_total`` and ``_used``, in bytes) and of the compute
driver's topology (``simd_count`` is 0 for a node without a GPU; a node with processor cores too is one chip with them).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blazar.hardware.gpu import Gpu

_NODES = "sys/class/kfd/kfd/topology/nodes"
_AMD = 0x1002


def probe(root: Path = Path("/")) -> tuple[Gpu, ...]:
    """Read them from ``root``'s ``/sys``, in the driver's order."""
    folders = [folder for folder in (root / _NODES).glob("*") if folder.name.isdigit()]
    nodes = [(folder, _properties(folder)) for folder in sorted(folders, key=lambda one: int(one.name))]
    gpus = [(folder, facts) for folder, facts in nodes if facts.get("simd_count") and facts.get("vendor_id") == _AMD]
    return tuple(gpu for index, (folder, facts) in enumerate(gpus) for gpu in _gpu(root, folder, index, facts))


def _gpu(root: Path, folder: Path, index: int, facts: dict[str, int]) -> Iterator[Gpu]:
    device = root / f"sys/class/drm/renderD{facts.get('drm_render_minor', 0)}/device"
    unified = facts.get("cpu_cores_count", 0) > 0
    total, used = (_number(device / f"mem_info_vram_{what}") for what in ("total", "used"))
    if (total is None or used is None) and not unified:
        return  # a GPU that does not say how much it holds cannot be planned with
    unique, version = facts.get("unique_id", 0), facts.get("gfx_target_version", 0)
    yield Gpu(
        vendor="amd",
        index=index,
        name=_text(device / "product_name") or _text(folder / "name") or "AMD GPU",
        id=f"GPU-{unique:016x}" if unique else str(index),
        total=total or 0,
        free=max(0, (total or 0) - (used or 0)),
        # 90402 is gfx 9.4.2; a minor number above 9 is none of theirs so far.
        capability=f"{version // 10000}.{version // 100 % 100}" if version else "",
        unified=unified,
    )


def _properties(folder: Path) -> dict[str, int]:
    found = {}
    for line in _text(folder / "properties").splitlines():
        key, _, value = line.partition(" ")
        if value.strip().isdigit():
            found[key] = int(value)
    return found


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
