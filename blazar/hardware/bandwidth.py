"""How fast main memory is read, measured once: what bounds the speed at which a model in it writes."""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from blazar.hardware import cpu

_BYTES = 64 << 20
_ROUNDS = 3


@functools.cache
def main_memory() -> int:
    """Bytes a second that all cores read together. Takes about a tenth of a second the first time.

    Each core reads a block of its own that is larger than its caches; the best of a few rounds counts, since whatever
    else the machine does only makes it slower.
    """
    cores = max(1, min(cpu.probe().physical, cpu.probe().usable))
    blocks = [np.ones(_BYTES // 8, np.int64) for _ in range(min(cores, 16))]
    best = 0.0
    with ThreadPoolExecutor(len(blocks)) as pool:
        for _ in range(_ROUNDS):
            began = time.perf_counter()
            list(pool.map(np.bitwise_or.reduce, blocks))
            best = max(best, len(blocks) * _BYTES / (time.perf_counter() - began))
    return int(best)
