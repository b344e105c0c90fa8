"""Memory of 100,000 candidates by the compiled kernel, against the same formulas in NumPy in the same run.

    python -m benches.grid [--smoke] [--json] [--rounds N]

The targets: at most 20 ms, and at least 5 times the referee. Both must give the same numbers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from blazar.memory import grid
from blazar.models import header
from tests.support import tiny_model

TIMES, MILLISECONDS = 5.0, 20.0
LAYERS = 32


def referee(plan: grid.Plan) -> grid.Grid:
    """``footprint.footprint`` for every combination, by broadcasting.

    Axes: contexts, slots, cache types, GPU layers.
    """
    embedding, moved, output, activations, logits, reserve, projector, runtime, step, batch = map(int, plan.constants)
    k, v, window, state, weights = (plan.layers[:, column] for column in range(5))
    whole = -(-plan.contexts[:, None] // step) * step
    sliding = np.minimum(whole, -(-(window + batch) // step) * step)
    cells = np.where(window > 0, sliding, whole)
    widest = np.where(window > 0, sliding, 0).max(1)
    width = k * plan.cache_types[:, :1] + v * plan.cache_types[:, 1:]
    per_slot = _to_the_last(cells[:, None, :] * width // 32 + state)[:, None]
    slots = plan.slots[None, :, None, None]
    compute = (activations + batch * 2 * (whole[:, 0] + widest))[:, None, None, None] + slots * logits
    below = _to_the_last(weights)
    first = np.clip(len(weights) + 1 - plan.gpu_layers, 0, len(weights))
    base = embedding + moved + compute + reserve + below[0] + slots * per_slot[..., :1]
    kept = below[first] + slots * per_slot[..., first]
    used = plan.gpu_layers > 0
    host = np.where(used, base - kept - moved, base + projector)
    device = np.where(used, kept + output + compute + projector + runtime, 0)
    return grid.Grid(host, device)


def _to_the_last(values: grid.Numbers) -> grid.Numbers:
    """Sums from each layer to the last, and a 0 after it."""
    sums = np.flip(np.cumsum(np.flip(values, -1), -1), -1)
    return np.concatenate([sums, np.zeros((*sums.shape[:-1], 1), np.int64)], -1)


def main() -> int:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help="two rounds")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "deep.gguf"
        tiny_model.write(path, layers=LAYERS)
        facts = header.read(path)
    contexts = [512 * number for number in range(1, 77)]
    plan = grid.plan(facts, contexts, range(1, 11), ("f16", "q8_0", "q8_0/q4_0", "q4_0"), range(LAYERS + 2))
    mine, other = [], []
    candidates = 0
    for _ in range(2 if arguments.smoke else arguments.rounds):
        began = time.perf_counter()
        theirs = referee(plan)
        between = time.perf_counter()
        ours = plan.run()
        mine.append((time.perf_counter() - between) * 1000)
        other.append((between - began) * 1000)
        if not (np.array_equal(theirs.host, ours.host) and np.array_equal(theirs.device, ours.device)):
            print("the kernel and its referee differ", file=sys.stderr)
            return 1
        candidates = ours.host.size
    kernel_ms, numpy_ms = statistics.median(mine), statistics.median(other)
    ratio = statistics.median(b / a for a, b in zip(mine, other, strict=True))
    if arguments.json:
        print(json.dumps({"candidates": candidates, "kernel_ms": mine, "numpy_ms": other, "ratio": ratio}))
        return 0
    print(f"{candidates:,} candidates")
    print(f"{'kernel':10} {kernel_ms:8.2f} ms   <= {MILLISECONDS:g} ms  {_mark(kernel_ms <= MILLISECONDS)}")
    print(f"{'numpy':10} {numpy_ms:8.2f} ms")
    print(f"{'ratio':10} {ratio:8.1f} times >= {TIMES:g}    {_mark(ratio >= TIMES)}")
    return 0


def _mark(reached: bool) -> str:
    return "reached" if reached else "NOT REACHED"


if __name__ == "__main__":
    sys.exit(main())
