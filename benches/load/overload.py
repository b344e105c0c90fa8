"""More than an engine can serve: Blazar and its peers before engines of four slots, in one run.

usage: python -m benches.load.overload [--json] [--seconds S] [--times 2,5,20] [--blazar PATH] [--litellm PATH]
                                       [--llama-swap PATH]

The engine is the stand-in with four slots, 20 pieces an answer, 100 a second: 20 answers a second at most. Requests
come at a rate, whatever became of those before, from two keys in equal numbers; with Blazar the first weighs three
times as much. Goodput is what was answered whole each second, as a part of what the engine can do. A peer runs as its
documentation has it for four requests at once; one that is not there is left out, and that is said. The exit code says
whether nothing broke at Blazar.
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
from typing import Any

from benches.load import machine
from benches.load.run import build
from benches.load.subjects import Blazar, Missing, Subject

SLOTS, TOKENS, PACE = 4, 20, 100
CAPACITY = SLOTS * PACE / TOKENS
LEAD_S, PATIENCE_S = 2.0, 20.0
# So many may wait: two seconds of work.
QUEUE = int(2 * CAPACITY)
KEYS = {"heavy": "heavy-secret-0123456789", "light": "light-secret-0123456789"}

SWAP = """healthCheckTimeout: 30
models:
  mock:
    cmd: sleep infinity
    proxy: http://{upstream}
    checkEndpoint: /health
    concurrencyLimit: {slots}
"""
LITELLM = """model_list:
  - model_name: mock
    litellm_params:
      model: openai/mock
      api_base: http://{upstream}/v1
      api_key: none
      max_parallel_requests: {slots}
litellm_settings: {{num_retries: 0, request_timeout: 60, telemetry: false}}
router_settings: {{num_retries: 0, disable_cooldowns: true}}
"""


class Engine(Subject):
    """The stand-in, which has every request wait that it has no slot for."""

    name = "engine"

    def command(self) -> list[str]:
        """Four slots."""
        return [*super().command(), "-np", str(SLOTS)]


class Peer(Subject):
    """One that stands before an engine of its own."""

    program: Path

    def __init__(self, home: Path, tools: Path, core: int | None, program: Path | None, upstream: str) -> None:
        super().__init__(home, tools, core)
        if program is None or not program.exists():
            raise Missing(f"{self.name}: no program was given")
        self.program = program
        self.upstream = upstream

    def write(self, text: str) -> str:
        """Its configuration; the path of it."""
        file = self.home / "config.yaml"
        file.write_text(text.format(upstream=self.upstream, slots=SLOTS))
        return str(file)


class Swap(Peer):
    """llama-swap, in Go: refuses what is over its limit."""

    name = "llama-swap"

    def command(self) -> list[str]:
        """The limit is the engine's slots."""
        return [str(self.program), "--config", self.write(SWAP), "--listen", self.address]


class LiteLLM(Peer):
    """LiteLLM's proxy, in Python."""

    name = "litellm"

    def command(self) -> list[str]:
        """One worker, as by default."""
        return [str(self.program), "--config", self.write(LITELLM), "--host", "127.0.0.1", "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        """It does not start without a key of its own, or this."""
        return {**super().environment(), "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}

    def healthy(self) -> bool:
        """Its ``/health`` asks the engines."""
        return self.answers("/health/liveliness")


class Gateway(Blazar):
    """Blazar with two keys; its queue holds two seconds of work."""

    def environment(self) -> dict[str, str]:
        """The engine's four slots."""
        keys = [{"name": name, "key": secret, "weight": 3 if name == "heavy" else 1} for name, secret in KEYS.items()]
        return {
            **super().environment(),
            "BLAZAR_ENGINE_SLOTS": str(SLOTS),
            "BLAZAR_ADMISSION_QUEUE_PER_MODEL": str(QUEUE),
            "BLAZAR_KEYS": json.dumps(keys),
        }


def surge(tools: Path, core: int | None, subject: Subject, times: float, seconds: float) -> dict[str, Any]:
    """One run at ``times`` the capacity; its report."""
    pin = [] if core is None else ["taskset", "-c", str(core)]
    keys = [word for name, secret in KEYS.items() for word in ("--key", f"{name}={secret}")]
    sizes = {"--rate": times * CAPACITY, "--seconds": seconds, "--lead": LEAD_S, "--patience": PATIENCE_S}
    sizes |= {"--tokens": TOKENS, "--pace": PACE}
    words = [str(word) for pair in sizes.items() for word in pair]
    command = [*pin, str(tools / "surge"), subject.address, "--model", subject.models[0], *keys, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def row(name: str, times: float, report: dict[str, Any]) -> tuple[str, ...]:
    """What a person reads of it."""
    done, refused = report["done"], report["refused"]

    def ms(part: dict[str, Any], key: str) -> str:
        return f"{part[key]:.0f}" if part["n"] else "-"

    shares = [part["done"]["n"] for part in report["by_key"].values()]
    return (
        name,
        f"{times:g}x",
        f"{report['done_per_s'] / CAPACITY:.2f}",
        ms(done, "p50"),
        ms(done, "p99"),
        str(refused["n"]),
        ms(refused, "p50"),
        ms(refused, "p99"),
        str(report["late"]["n"]),
        str(report["broken"]["n"]),
        f"{shares[0] / max(1, shares[1]):.2f}",
    )


HEAD = ("", "load", "goodput", "p50 ms", "p99 ms", "refused", "p50 ms", "p99 ms", "gave up", "broken", "heavy/light")


def show(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table."""
    widths = [max(len(line[at]) for line in (head, *rows)) for at in range(len(head))]
    lines = []
    for first, *rest in (head, *rows):
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return "\n".join(lines)


def options() -> argparse.Namespace:
    """The command line."""
    about = (__doc__ or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benches.load.overload", description=about)
    parser.add_argument("--json", action="store_true", help="everything that was measured, as JSON")
    parser.add_argument("--seconds", type=float, default=12, help="seconds that requests come in each run")
    parser.add_argument("--times", default="2,5,20", help="how much more than the engine can serve")
    parser.add_argument("--blazar", type=Path, default=Path(sys.executable).with_name("blazar"))
    parser.add_argument("--litellm", type=Path, help="the program litellm of an environment with litellm[proxy]")
    parser.add_argument("--llama-swap", type=Path, help="the program llama-swap")
    return parser.parse_args()


def main() -> int:
    """Run; 0 when nothing broke at Blazar."""
    asked = options()
    cores = sorted(os.sched_getaffinity(0))
    aside, core = (None, None) if len(cores) < 2 else (cores[0], cores[1])
    tools = build()
    found: dict[str, dict[str, Any]] = {}
    rows: list[tuple[str, ...]] = []
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blazar-overload-")))
        engines = [Engine(home / str(number), tools, aside) for number in range(2)]
        for engine in engines:
            stack.callback(engine.stop)
            engine.launch(1)
        subjects: list[Subject] = []
        makers: tuple[Callable[[], Subject], ...] = (
            lambda: Gateway(home, tools, core, asked.blazar, aside),
            lambda: Swap(home, tools, core, asked.llama_swap, engines[0].address),
            lambda: LiteLLM(home, tools, core, asked.litellm, engines[1].address),
        )
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
            surge(tools, aside, subject, 0.5, LEAD_S + 1)
        for times in map(float, asked.times.split(",")):
            for subject in subjects:
                print(f"{times:g} times the capacity: {subject.name}", file=sys.stderr, flush=True)
                report = surge(tools, aside, subject, times, asked.seconds)
                found.setdefault(subject.name, {})[f"{times:g}"] = report
                rows.append(row(subject.name, times, report))
    if asked.json:
        print(json.dumps({"machine": machine.describe(), "capacity_per_s": CAPACITY, "found": found}, indent=1))
    else:
        print(show(HEAD, rows))
    return int(any(report["broken"]["n"] for report in found["blazar"].values()))


if __name__ == "__main__":
    sys.exit(main())
