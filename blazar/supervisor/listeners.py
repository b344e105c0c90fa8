"""Who listens on a port of this machine, as far as the kernel lets us see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_LISTEN = "0A"
_LOOKS = 3


def owner(port: int, root: Path = Path("/proc")) -> str | None:
    """``nginx (pid 123)`` for whoever listens on TCP ``port``; None when nobody does or it belongs to another user. Of
    several processes the oldest, which started the others.

    Source: proc(5), ``/proc/net/tcp``: local address, state and inode; the holder has ``socket:[INODE]`` open.
    """
    # The kernel shows its table piece by piece, and a machine that opens and closes much may skip a line meanwhile.
    wanted: set[str] = set()
    for _ in range(_LOOKS):
        wanted.update(f"socket:[{inode}]" for inode in _inodes(port, root))
        if wanted:
            break
    else:
        return None
    for entry in sorted(root.iterdir(), key=lambda entry: (len(entry.name), entry.name)):
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):  # it ended meanwhile, or is not ours to look into
            if any(_target(held) in wanted for held in (entry / "fd").iterdir()):
                return f"{(entry / 'comm').read_text().strip()} (pid {entry.name})"
    return None


def _target(held: Path) -> str:
    """What a descriptor leads to; nothing when it was closed meanwhile, as the one that listed them all was."""
    try:
        return str(held.readlink())
    except OSError:
        return ""


def _inodes(port: int, root: Path) -> Iterator[str]:
    for table in ("net/tcp", "net/tcp6"):
        with suppress(OSError):
            for line in (root / table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                    yield words[9]
