"""Main memory: what there is and what can be taken, within the limits of the control groups around this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

# Version 1 writes "no limit" as the largest page-aligned number.
_NO_LIMIT = 1 << 60


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes. ``total`` and ``available`` are already the smallest of machine and control groups; ``limited`` says that
    a group, not the machine, set ``total``. ``swap`` is free swap space.
    """

    total: int
    available: int
    swap: int
    limited: bool


class _Group(msgspec.Struct, frozen=True):
    limit: int
    available: int


def probe(root: Path = Path("/")) -> Memory:
    """Read it from ``root``'s ``/proc`` and ``/sys``. Zeroes where the kernel does not say."""
    machine = _meminfo(root)
    total, available = machine.get("MemTotal", 0), _available(machine)
    limited = False
    for group in _groups(root):
        limited = limited or group.limit < total
        total, available = min(total, group.limit), min(available, group.available)
    return Memory(total=total, available=max(available, 0), swap=machine.get("SwapFree", 0), limited=limited)


def available(root: Path = Path("/")) -> int:
    """Bytes that can be taken now. Cheap: a few small reads."""
    return probe(root).available


def _available(machine: dict[str, int]) -> int:
    # Kernels before 3.14 do not estimate it.
    old = machine.get("MemFree", 0) + machine.get("Cached", 0) + machine.get("Buffers", 0)
    return machine.get("MemAvailable", old)


def _meminfo(root: Path) -> dict[str, int]:
    found = {}
    for line in _lines(root / "proc/meminfo"):
        key, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[key] = int(words[0]) * 1024
    return found


def _groups(root: Path) -> Iterator[_Group]:
    """Every limited group from the one this process is in up to the root of the hierarchy, in both versions.

    Inside a container the path is often that of the host and does not exist here; then the walk ends at the mount,
    which is the container's own group.
    """
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        parts = [part for part in path.split("/") if part and part != ".."]
        if number == "0" and not controllers:
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        for depth in range(len(parts), -1, -1):
            group = _group(base.joinpath(*parts[:depth]), *names)
            if group is not None:
                yield group


def _group(folder: Path, limit_name: str, usage_name: str, cache_name: str) -> _Group | None:
    limit, usage = _number(folder / limit_name), _number(folder / usage_name)
    if limit is None or usage is None or limit >= _NO_LIMIT:
        return None
    # File pages nobody has used lately go as soon as someone needs the room.
    cache = next(
        (int(words[1]) for words in map(str.split, _lines(folder / "memory.stat")) if words[:1] == [cache_name]), 0
    )
    return _Group(limit, limit - usage + min(cache, usage))


def _number(path: Path) -> int | None:
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
