"""Runs the steps one after the other, stops at nothing, leaves no process behind, and says honestly what came of it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from tests.gate.count import Tally
from tests.gate.steps import HERE, ROOT, Step

_PR_SET_CHILD_SUBREAPER = 36
_SHOWN_LINES = 200


class Outcome(msgspec.Struct, frozen=True):
    """How a step went. ``note`` is empty unless there is something to say besides the numbers."""

    step: Step
    tally: Tally
    seconds: float
    note: str = ""


def run(steps: Sequence[Step]) -> int:
    """Run, print a table and the summary line; 0 when nothing failed."""
    # Whatever a step leaves behind, even in a session of its own, becomes our child and can be found.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A shell that runs us in its background has Ctrl-C ignored, which every child would inherit and some tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outcomes = [_one(step) for step in steps]
    print()
    for outcome in outcomes:
        tally = outcome.tally
        mark = "FAILED" if tally.failed else "ok"
        counts = f"{tally.passed:>6} passed {tally.failed:>4} failed {tally.skipped:>4} skipped"
        print(f"{outcome.step.name:<14}{mark:<8}{counts}{outcome.seconds:>8.1f} s  {outcome.note}".rstrip())
    total = sum((outcome.tally for outcome in outcomes), Tally())
    print(f"{'together':<58}{sum(outcome.seconds for outcome in outcomes):>8.1f} s\n")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped", flush=True)
    return 1 if total.failed else 0


def _one(step: Step) -> Outcome:
    print(f"==> {step.name}: {step.what}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="blazar-gate-") as folder:
        report = Path(folder) / "report.xml"
        log = Path(folder) / "log"
        command = [word.replace("{report}", str(report)) for word in step.command]
        note = ""
        try:
            with log.open("wb") as out:
                code = _execute(command, out.fileno(), step.limit_s)
        except FileNotFoundError:
            code, note = 127, f"{command[0]} is missing"
        except subprocess.TimeoutExpired:
            code, note = 124, f"stopped after {step.limit_s:.0f} s"
        if left := _end_leftovers():
            note = "; ".join(filter(None, (note, f"left {left} processes behind")))
        output = log.read_text(errors="replace") if log.exists() else ""
        tally = step.count(code, output, report)
    if tally.failed:
        print("\n".join(output.splitlines()[-_SHOWN_LINES:]))
        print(f"<== {step.name} failed{f': {note}' if note else f' with code {code}'}", flush=True)
    return Outcome(step, tally, time.monotonic() - began, note)


def _execute(command: list[str], out: int, limit_s: float) -> int:
    # The settings of whoever runs us are not those of the tests.
    env = {name: value for name, value in os.environ.items() if not name.startswith("BLAZAR_") and name != "PYTHONPATH"}
    # The tools of this environment come first, whether or not it is activated.
    env |= {"PATH": f"{HERE}{os.pathsep}{os.environ.get('PATH', os.defpath)}", "NO_COLOR": "1"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
    )
    try:
        return process.wait(limit_s)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _end_leftovers() -> int:
    """SIGKILL whatever still descends from us, and reap it; how many there were."""
    ended: set[int] = set()
    grace = time.monotonic() + 2
    while left := _children():
        # What is on its way out by itself is no leftover.
        if time.monotonic() < grace:
            time.sleep(0.05)
        else:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    ended.add(pid)  # one that takes a while to die is still one
        _reap()
    return len(ended)


def _children() -> list[int]:
    """Live children of this process; grandchildren become children when their parent is gone."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == os.getpid() and state != "Z":
                    found.append(int(entry.name))
    _reap()
    return found


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
