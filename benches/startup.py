"""How long the command line takes to start, against the interpreter and click alone, measured in turn in the same run.

    python benches/startup.py [--smoke] [--rounds N]

The target: each command within 60 ms of ``python -c 'import click'``, that is, of an empty program of the same kind.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

TARGET_MS = 60.0
_ROW = b'{"models":[{"name":"a","model":"a","size":1,"expires_at":"2031-01-01T00:00:00Z","context_length":4096}]}'


class Run(NamedTuple):
    """One start to end, in milliseconds: on the clock, and of a processor."""

    wall: float
    cpu: float


class _Daemon(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(_ROW)))
        self.end_headers()
        self.wfile.write(_ROW)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> int:
    """Print the table; fails if a command does not run, and without ``--smoke`` also if one misses the target."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help="two rounds, and no judgement of the times")
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    # The answering thread lives in this process, so only the children's own time is counted.
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Daemon)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        # What a running daemon leaves for the commands to find it by.
        host, port = server.server_address[:2]
        record = {"pid": os.getpid(), "host": host, "port": port, "started_ns": 0, "start": 0}
        run = Path(home) / "data" / "run"
        run.mkdir(parents=True)
        (run / "daemon.json").write_text(json.dumps(record))
        env = {name: value for name, value in os.environ.items() if not name.startswith("BLAZAR_")}
        env |= {"BLAZAR_HOME": home}
        times = _measure(2 if arguments.smoke else arguments.rounds, env)
    server.shutdown()
    base = times["python + click"]
    print(f"{'':18} {'median':>8} {'least':>8} {'CPU':>8} {'over click':>11} {'CPU over':>9}")
    missed = []
    for name, spent in times.items():
        # On a busy machine noise only ever adds, so the least of each is the fairest to compare.
        over = min(run.wall for run in spent) - min(run.wall for run in base)
        over_cpu = _median([run.cpu - other.cpu for run, other in zip(spent, base, strict=True)])
        walls = [run.wall for run in spent]
        cpu = _median([run.cpu for run in spent])
        print(f"{name:18} {_median(walls):6.1f}ms {min(walls):6.1f}ms {cpu:6.1f}ms {over:9.1f}ms {over_cpu:7.1f}ms")
        if name.startswith("blazar") and over > TARGET_MS:
            missed.append(name)
    print(
        f"target: at most {TARGET_MS:g} ms over python + click: {'missed by ' + ', '.join(missed) if missed else 'met'}"
    )
    return 1 if missed and not arguments.smoke else 0


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _run(command: list[str], env: dict[str, str]) -> Run:
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(wall * 1e3, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3)


def _measure(rounds: int, env: dict[str, str]) -> dict[str, list[Run]]:
    blazar = str(Path(sys.executable).with_name("blazar"))
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "python + click": [sys.executable, "-c", "import click"],
        "blazar --version": [blazar, "--version"],
        "blazar --help": [blazar, "--help"],
        "blazar ps": [blazar, "ps"],
    }
    times: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        # In turn, so that a busy moment of the machine falls on all of them.
        for name, command in commands.items():
            times[name].append(_run(command, env))
    return times


if __name__ == "__main__":
    sys.exit(main())
