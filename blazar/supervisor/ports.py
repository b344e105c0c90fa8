"""Where children listen.

A Unix socket in the private run folder, when its path is short enough for the kernel: nobody else can take the name,
no web page can reach it, and it can be asked from the first moment. Else TCP on loopback with a port that the kernel
gives the child itself, which it says in its log; a port that is found free and handed over could be lost in between.
"""

from __future__ import annotations

from pathlib import Path

from blazar.engines.base import Address

# The address structure holds 108 bytes with the closing zero.
_LONGEST = 107


def address(run: Path, token: str) -> Address:
    """The address of a child that is known as ``token``."""
    path = run / f"{token}.sock"
    if len(str(path).encode()) <= _LONGEST:
        return Address(unix=str(path))
    return Address(host="127.0.0.1", port=0)
