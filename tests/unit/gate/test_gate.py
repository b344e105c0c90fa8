"""The gate counts honestly, survives whatever a step does, and leaves nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.gate import count
from tests.gate.count import Tally

ROOT = Path(__file__).parents[3]


def test_cargo_results_are_summed_over_binaries() -> None:
    output = (
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\nx\ntest result: ok. 2 passed; 0 failed; 0 ignored;"
    )
    assert count.cargo(0, output, Path()) == Tally(passed=5, skipped=1)


def test_a_crate_that_does_not_compile_has_failed() -> None:
    assert count.cargo(101, "error: could not compile", Path()) == Tally(failed=1)


def test_a_run_that_tested_nothing_has_failed() -> None:
    assert count.cargo(0, "", Path()) == Tally(failed=1)


def test_pytest_is_counted_by_its_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite tests="7" failures="1" errors="1" skipped="2"/></testsuites>')
    assert count.pytest(1, "", report) == Tally(passed=3, failed=2, skipped=2)


def test_a_crash_of_pytest_has_failed(tmp_path: Path) -> None:
    assert count.pytest(-11, "", tmp_path / "none.xml") == Tally(failed=1)


def test_broken_contracts_are_failures() -> None:
    assert count.contracts(1, "Contracts: 9 kept, 2 broken.", Path()) == Tally(passed=9, failed=2)


@pytest.fixture
def gate() -> subprocess.CompletedProcess[str]:
    """A gate of bad steps, in a process of its own: it would take our children for leftovers."""
    script = """
        from tests.gate.runner import run
        from tests.gate.steps import Step

        raise SystemExit(run([
            Step("gone", "a tool that is missing", ("no-such-tool",)),
            Step("slow", "takes too long", ("sleep", "60"), limit_s=0.2),
            Step("set", "fails where it hears our settings", ("sh", "-c", "! env | grep ^BLAZAR_")),
            Step("bad", "says why", ("sh", "-c", "echo the reason; exit 3")),
            Step("leaver", "leaves a daemon behind", ("sh", "-c", "setsid sleep 4711 >/dev/null 2>&1 & exit 0")),
        ]))
    """
    env = os.environ | {"BLAZAR_SERVER_PORT": "1"}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def test_the_gate_stops_at_nothing_and_ends_leftovers(gate: subprocess.CompletedProcess[str]) -> None:
    lines = gate.stdout.splitlines()
    assert gate.returncode == 1
    assert lines[-1] == "2 passed, 3 failed, 0 skipped"
    assert "no-such-tool is missing" in gate.stdout
    assert "the reason" in lines
    assert any("left 1 processes behind" in line for line in lines)
    commands = [_command(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    assert b"sleep\x004711\x00" not in commands


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() if pid != os.getpid() else b""
    except OSError:
        return b""
