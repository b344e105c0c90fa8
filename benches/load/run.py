"""The bare engine, nginx and Blazar in one interleaved run.

usage: python -m benches.load.run [--smoke] [--json] [--rounds N] [--hold SECONDS] [--no-pin] [--blazar PATH]

The engine is a stand-in that paces its answers and stamps each piece of text with the machine's monotonic clock; the
load tool takes the stamps off. Rounds alternate between the subjects, the table shows medians over the rounds. With two
cores or more, engines and load tool share one and the subject has another, unless ``--no-pin`` lets the kernel choose.
The exit code says whether every answer came whole and in order; a speed that was not reached is printed and fails
nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from benches.load import machine, scenarios
from benches.load.scenarios import SMOKE, Load, Result, Sizes
from benches.load.subjects import Blazar, Missing, Nginx, Subject
from benches.load.table import table

HERE = Path(__file__).parent
ROUND: tuple[tuple[str, Callable[[Load, Subject, Sizes], Result]], ...] = (
    ("moderate", scenarios.moderate),
    ("plain", scenarios.plain),
    ("burst", scenarios.burst),
)


def build() -> Path:
    """Compile the stand-in engine and the load tool; the folder that holds both."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", str(HERE / "Cargo.toml")]
    target = HERE / "target"
    subprocess.run([*command, "--target-dir", str(target)], check=True)
    return target / "release"


def measure(subjects: list[Subject], load: Load, sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """All rounds; by subject: its start, its idle cost, a list of results per scenario, and what went wrong."""
    found: dict[str, Any] = {}
    for subject in subjects:
        warmed = scenarios.warm(load, subject)
        idle = subject.cost()
        found[subject.name] = {
            "cold_start_s": subject.cold_start_s,
            "idle_rss": idle.rss,
            "idle_pss": idle.pss,
            "processes": idle.processes,
            "faults": scenarios.faults(warmed),
        }
    for number in range(sizes.rounds):
        turn = number % len(subjects)
        for subject in subjects[turn:] + subjects[:turn]:
            say(f"round {number + 1} of {sizes.rounds}: {subject.name}")
            for name, scenario in ROUND:
                keep(found[subject.name], name, scenario(load, subject, sizes))
    for subject in subjects:
        say(f"{sizes.streams} streams for {sizes.hold_s} s: {subject.name}")
        keep(found[subject.name], "held", scenarios.held(load, subject, sizes))
    return found


def keep(found: dict[str, Any], name: str, result: Result) -> None:
    """File one result."""
    found.setdefault(name, []).append(result)
    found["faults"] += [f"{name}: {fault}" for fault in scenarios.faults(result)]


def medians(values: list[Any]) -> Any:
    """Results of the same shape as one, number by number."""
    if isinstance(values[0], dict):
        keys = [key for key in values[0] if all(key in value for value in values)]
        return {key: medians([value[key] for value in values]) for key in keys if key != "errors"}
    return median(values)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benches.load.run", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a few seconds: does everything work, whatever the speed")
    parser.add_argument("--json", action="store_true", help="everything that was measured, as JSON")
    parser.add_argument("--rounds", type=int, help="rounds per subject")
    parser.add_argument("--hold", type=int, help="seconds that the many streams are held")
    parser.add_argument("--no-pin", action="store_true", help="let the kernel choose the cores")
    parser.add_argument("--blazar", type=Path, default=Path(sys.executable).with_name("blazar"))
    return parser.parse_args()


def main() -> int:
    """Run; 0 when every answer was whole."""
    asked = options()
    sizes = SMOKE if asked.smoke else Sizes()
    if asked.rounds:
        sizes = msgspec.structs.replace(sizes, rounds=asked.rounds)
    if asked.hold:
        sizes = msgspec.structs.replace(sizes, hold_s=asked.hold)
    cores = sorted(os.sched_getaffinity(0))
    aside, core = (None, None) if asked.no_pin or len(cores) < 2 else (cores[0], cores[1])
    tools = build()
    load = Load(tools / "sse-load", aside)
    about = {**machine.describe(), "pinned": core is not None, "sizes": msgspec.to_builtins(sizes)}
    absent: list[str] = []

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blazar-load-")))
        direct = Subject(home, tools, aside)
        subjects: list[Subject] = []
        makers: tuple[Callable[[], Subject], ...] = (
            lambda: direct,
            lambda: Nginx(home, tools, core, direct.address),
            lambda: Blazar(home, tools, core, asked.blazar, aside),
        )
        for make in makers:
            try:
                subject = make()
                stack.callback(subject.stop)
                subject.launch(sizes.starts)
            except Missing as reason:
                absent.append(str(reason))
                say(f"left out: {reason}")
            else:
                subjects.append(subject)
        found = measure(subjects, load, sizes, say)
    summary = {
        name: {
            key: medians(value) if isinstance(value, list) and key != "faults" else value for key, value in one.items()
        }
        for name, one in found.items()
    }
    if asked.json:
        print(json.dumps({"machine": about, "left_out": absent, "medians": summary, "rounds": found}, indent=1))
    else:
        print(table(about, summary))
    faults = [f"{name}: {fault}" for name, one in found.items() for fault in one["faults"]]
    for fault in faults:
        say(f"FAULT {fault}")
    unmeasured = [reason for reason in absent if not reason.startswith("nginx is not")]
    return 1 if faults or unmeasured else 0


if __name__ == "__main__":
    sys.exit(main())
