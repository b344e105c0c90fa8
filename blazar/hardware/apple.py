"""The GPU of an Apple chip: always there, and always in main memory."""

from __future__ import annotations

import platform

from blazar.hardware.gpu import Gpu


def probe(system: str = "", machine: str = "") -> tuple[Gpu, ...]:
    """One on macOS with a chip of Apple's own, else none. The arguments are for another machine than this one."""
    if (system or platform.system(), machine or platform.machine()) != ("Darwin", "arm64"):
        return ()
    return (Gpu(vendor="apple", index=0, name="Apple GPU", id="apple", total=0, free=0, unified=True),)
