"""Thousands of open streams: what each costs, and how late its chunks are.

usage: python -m benches.load.streams [--json] [--streams 1000,5000] [--rate 20] [--hold SECONDS] [--blazar PATH]

The stand-in engine paces every stream; straight, through nginx and through Blazar, in one run. The way of a chunk is
from the engine's stamp to the client; what a gateway adds is its way less the straight one. CPU and memory are the
gateway's own. The exit code says whether every chunk came, once and in order.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from benches.load import machine, scenarios
from benches.load.overload import show
from benches.load.run import build
from benches.load.scenarios import Load, Sizes
from benches.load.subjects import SLOTS, Blazar, Missing, Nginx, Subject

HEAD = (
    "",
    "streams",
    "chunks/s",
    "wanted",
    "way p50 ms",
    "p99 ms",
    "CPU cores",
    "KiB a stream",
    "growth KiB",
    "faults",
)


class Straight(Subject):
    """The engine alone, with a place for each."""

    def command(self) -> list[str]:
        """As many slots as there may be streams."""
        return [*super().command(), "-np", "8192"]


class Wide(Blazar):
    """Blazar with as many models as the streams need: one has at most so many slots."""

    def __init__(
        self, home: Path, tools: Path, core: int | None, executable: Path, engine_core: int | None, streams: int
    ) -> None:
        super().__init__(home, tools, core, executable, engine_core)
        self.models = [f"mock-{number}" for number in range(-(-streams // SLOTS) + 1)]


def row(name: str, streams: int, result: dict[str, Any]) -> tuple[str, ...]:
    """What a person reads of it."""
    memory = result["memory"]
    return (
        name,
        str(streams),
        f"{result['chunks_per_s']:.0f}",
        f"{result['wanted_chunks_per_s']:.0f}",
        f"{result['way_ms']['p50']:.2f}",
        f"{result['way_ms']['p99']:.2f}",
        f"{result['cpu_cores']:.2f}",
        f"{(memory['peak_pss'] - memory['idle_pss']) / 1024 / streams:.1f}",
        f"{(memory['last_pss'] - memory['first_pss']) / 1024:.0f}",
        str(len(scenarios.faults(result))),
    )


def options() -> argparse.Namespace:
    """The command line."""
    about = (__doc__ or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benches.load.streams", description=about)
    parser.add_argument("--json", action="store_true", help="everything that was measured, as JSON")
    parser.add_argument("--streams", default="1000,5000", help="how many are open at once")
    parser.add_argument("--rate", type=int, default=20, help="chunks a second of each")
    parser.add_argument("--hold", type=int, default=15, help="seconds that they are held")
    parser.add_argument("--blazar", type=Path, default=Path(sys.executable).with_name("blazar"))
    return parser.parse_args()


def main() -> int:
    """Run; 0 when every chunk came."""
    asked = options()
    cores = sorted(os.sched_getaffinity(0))
    aside, core = (None, None) if len(cores) < 2 else (cores[0], cores[1])
    tools = build()
    load = Load(tools / "sse-load", aside)
    widths = [int(text) for text in asked.streams.split(",")]
    found: dict[str, dict[str, Any]] = {}
    rows: list[tuple[str, ...]] = []
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blazar-streams-")))
        direct = Straight(home, tools, aside)
        makers: tuple[Callable[[], Subject], ...] = (
            lambda: direct,
            lambda: Nginx(home, tools, core, direct.address),
            lambda: Wide(home, tools, core, asked.blazar, aside, max(widths)),
        )
        subjects: list[Subject] = []
        for make in makers:
            try:
                subject = make()
                stack.callback(subject.stop)
                subject.launch(1)
            except Missing as reason:
                print(f"left out: {reason}", file=sys.stderr, flush=True)
            else:
                subjects.append(subject)
        for subject in subjects:
            scenarios.warm(load, subject)
        for streams in widths:
            sizes = msgspec.structs.replace(Sizes(), streams=streams, hold_s=asked.hold, rate=asked.rate)
            for subject in subjects:
                print(f"{streams} streams: {subject.name}", file=sys.stderr, flush=True)
                result = scenarios.held(load, subject, sizes)
                found.setdefault(subject.name, {})[str(streams)] = result
                rows.append(row(subject.name, streams, result))
    if asked.json:
        print(json.dumps({"machine": machine.describe(), "found": found}, indent=1))
    else:
        print(show(HEAD, rows))
    faults = [fault for one in found.values() for result in one.values() for fault in scenarios.faults(result)]
    for fault in faults:
        print(f"FAULT {fault}", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
