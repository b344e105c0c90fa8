"""The processor, as the kernel describes it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

# What engine builds are chosen by; the rest of the kernel's list says nothing about speed.
_TELLING = frozenset(
    {
        "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
        "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16", "neon", "asimd", "asimddp", "i8mm", "bf16", "sve", "sve2",
    }
)  # fmt: skip


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """``physical`` and ``logical`` cores of the machine; ``usable`` are those that this process may run on at once, by
    affinity and by the quota of its control group.
    """

    name: str
    physical: int
    logical: int
    usable: int
    features: tuple[str, ...]


def probe(root: Path = Path("/")) -> Cpu:
    """Read it from ``root``'s ``/proc`` and ``/sys``; what cannot be read is counted as one core without features."""
    sections = _sections(root)
    logical = len(sections) or os.cpu_count() or 1
    cores = {(section["physical id"], section["core id"]) for section in sections if "core id" in section}
    first = sections[0] if sections else {}
    names = (first.get(key) for key in ("model name", "Hardware", "CPU implementer"))
    words = set((first.get("flags") or first.get("Features") or "").split())
    return Cpu(
        name=next((name for name in names if name), "unknown"),
        physical=len(cores) or logical,
        logical=logical,
        usable=_usable(root, logical),
        features=tuple(sorted(words & _TELLING)),
    )


def _sections(root: Path) -> list[dict[str, str]]:
    """One dict for each logical core of ``/proc/cpuinfo``."""
    try:
        text = (root / "proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return []
    found = []
    for block in text.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        section = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" in section:
            section.setdefault("physical id", "0")
            found.append(section)
    return found


def _usable(root: Path, logical: int) -> int:
    allowed = len(os.sched_getaffinity(0)) if root == Path("/") and hasattr(os, "sched_getaffinity") else logical
    quota = _quota(root)
    return max(1, min(allowed, logical, quota or logical))


def _quota(root: Path) -> int | None:
    """Whole cores that the control group grants, rounded up; None without a limit."""
    try:
        words = (root / "sys/fs/cgroup/cpu.max").read_text().split()
    except OSError:
        words = []
        try:
            base = root / "sys/fs/cgroup/cpu"
            words = [(base / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")]
        except OSError:
            return None
    try:
        quota, period = int(words[0]), int(words[1])
    except (ValueError, IndexError):
        return None
    return -(-quota // period) if quota > 0 and period > 0 else None
