"""What processes cost, read from ``/proc``."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

_TICK = os.sysconf("SC_CLK_TCK")


class Cost(msgspec.Struct, frozen=True):
    """Of a process tree: CPU seconds so far, resident bytes, and the same with shared pages counted once."""

    cpu_s: float
    rss: int
    pss: int
    processes: int


def tree(root: int, without: str = "") -> list[int]:
    """``root`` and its live descendants, save those whose executable's name is ``without`` (and what they started)."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                parents.setdefault(int(parent), []).append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if not without or _executable(pid) != without:
            found.append(pid)
            waiting.extend(parents.get(pid, ()))
    return found


def cost(root: int, without: str = "") -> Cost:
    """The cost of a tree now; a process that ends meanwhile counts as nothing."""
    pids = tree(root, without)
    parts = [_one(pid) for pid in pids]
    return Cost(
        cpu_s=sum(part[0] for part in parts),
        rss=sum(part[1] for part in parts),
        pss=sum(part[2] for part in parts),
        processes=len(pids),
    )


def describe() -> dict[str, object]:
    """What machine it was, for whoever reads the numbers later."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "unknown",
    )
    return {"cpu": cpu, "cores": os.cpu_count(), "load_before": os.getloadavg()[0], "kernel": os.uname().release}


def _executable(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""


def _one(pid: int) -> tuple[float, int, int]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0, 0, 0
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in rollup.splitlines()[1:]}
    return (int(fields[11]) + int(fields[12])) / _TICK, sizes.get("Rss", 0), sizes.get("Pss", 0)
