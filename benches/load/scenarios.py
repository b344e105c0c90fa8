"""What is asked of each subject, and what is read off it."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from benches.load.subjects import Subject

PLAIN_TOKENS = 16
"""Pieces of a plain answer, of 64 bytes each: 1 KB of text."""


class Sizes(msgspec.Struct, frozen=True):
    """How long and how wide a run is. Seconds per round; ``streams`` are held open for ``hold_s``
    at ``rate`` chunks a second.
    """

    starts: int = 5
    rounds: int = 5
    moderate_s: float = 4
    plain_s: float = 3
    burst_s: float = 3
    hold_s: int = 20
    streams: int = 500
    rate: int = 50


SMOKE = Sizes(starts=1, rounds=1, moderate_s=1, plain_s=0.5, burst_s=0.5, hold_s=2, streams=40)

Result = dict[str, Any]


class Load:
    """The load tool, pinned where the engines run."""

    def __init__(self, tool: Path, core: int | None) -> None:
        self._prefix = [*([] if core is None else ["taskset", "-c", str(core)]), str(tool)]

    def run(self, subject: Subject, *options: object) -> Result:
        """One run against ``subject``; its report."""
        models = [word for model in subject.models for word in ("--model", model)]
        command = [*self._prefix, subject.address, *models, *map(str, options)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the load tool ended with {done.returncode}: {done.stderr.strip()}")
        report: Result = json.loads(done.stdout)
        return report


def warm(load: Load, subject: Subject) -> Result:
    """Load the models, fill the pools."""
    load.run(subject, "--connections", 4, "--requests", 8, "--tokens", 2, "--rate", 0)
    return load.run(subject, "--connections", 32, "--requests", 600, "--tokens", 4, "--rate", 0)


def moderate(load: Load, subject: Subject, sizes: Sizes) -> Result:
    """16 clients that read 50 chunks a second and think 20 ms in between: the ways of first and later chunks."""
    options = ["--connections", 16, "--tokens", 20, "--rate", 50, "--think-ms", 20, "--warmup", 16, "--ramp-ms", 400]
    return load.run(subject, *options, "--seconds", sizes.moderate_s)


def plain(load: Load, subject: Subject, sizes: Sizes) -> Result:
    """32 clients, answers in one piece, as fast as they come; CPU per 1,000 of them."""
    before = subject.cost()
    result = load.run(
        subject, "--plain", "--connections", 32, "--tokens", PLAIN_TOKENS, "--bytes", 64, "--seconds", sizes.plain_s
    )
    result["cpu_s_per_1000"] = 1000 * (subject.cost().cpu_s - before.cpu_s) / max(1, result["requests"])
    return result


def burst(load: Load, subject: Subject, sizes: Sizes) -> Result:
    """32 streams of 200 chunks back to back; CPU per 1,000,000 chunks."""
    before = subject.cost()
    result = load.run(subject, "--connections", 32, "--tokens", 200, "--seconds", sizes.burst_s)
    result["cpu_s_per_million_chunks"] = 1e6 * (subject.cost().cpu_s - before.cpu_s) / max(1, result["chunks"])
    return result


def held(load: Load, subject: Subject, sizes: Sizes) -> Result:
    """Many open streams: what each costs in memory, and whether that grows."""
    ramp_s = 2
    idle = subject.cost()
    samples: list[tuple[float, int, int]] = []
    over = threading.Event()
    began = time.monotonic()

    def watch() -> None:
        while not over.wait(0.5):
            now = subject.cost()
            samples.append((time.monotonic() - began, now.rss, now.pss))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        options = ["--connections", sizes.streams, "--requests", sizes.streams, "--tokens", sizes.rate * sizes.hold_s]
        result = load.run(subject, *options, "--rate", sizes.rate, "--ramp-ms", 1000 * ramp_s)
    finally:
        over.set()
        watcher.join()
    after = subject.cost()
    # While every stream is open: from the end of the ramp to the first one's last chunk.
    steady = [sample for sample in samples if ramp_s <= sample[0] <= sizes.hold_s] or samples[-1:]
    result["memory"] = {
        "idle_rss": idle.rss,
        "idle_pss": idle.pss,
        "first_pss": steady[0][2],
        "last_pss": steady[-1][2],
        "peak_rss": max(sample[1] for sample in steady),
        "peak_pss": max(sample[2] for sample in steady),
        "after_pss": after.pss,
    }
    result["cpu_cores"] = (after.cpu_s - idle.cpu_s) / max(0.001, result["seconds"])
    result["wanted_chunks_per_s"] = sizes.streams * sizes.rate * sizes.hold_s / (sizes.hold_s + ramp_s)
    return result


def faults(result: Result) -> list[str]:
    """What went wrong in a run, apart from its speed."""
    found = [f"{count} times: {what}" for what, count in result["errors"].items()]
    found += [f"{result[key]} chunks {key}" for key in ("missing", "doubled", "out_of_order") if result[key]]
    return found
