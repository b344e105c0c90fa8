"""How many checks a step made, by its own runner's word."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import msgspec


class Tally(msgspec.Struct, frozen=True):
    """What passed, failed and was skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


Count = Callable[[int, str, Path], Tally]
"""From exit code, output and report file to a tally."""

_CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
_CONTRACTS = re.compile(r"Contracts: (\d+) kept, (\d+) broken")


def once(code: int, output: str, report: Path) -> Tally:
    """A tool that only says yes or no."""
    del output, report
    return Tally(passed=1) if code == 0 else Tally(failed=1)


def cargo(code: int, output: str, report: Path) -> Tally:
    """Sums the lines of all test binaries."""
    del report
    tally = Tally()
    for passed, failed, ignored in _CARGO.findall(output):
        tally += Tally(int(passed), int(failed), int(ignored))
    return _honest(code, tally)


def contracts(code: int, output: str, report: Path) -> Tally:
    """Counts each import contract."""
    del report
    found = _CONTRACTS.search(output)
    return _honest(code, Tally(int(found[1]), int(found[2])) if found else Tally())


def pytest(code: int, output: str, report: Path) -> Tally:
    """Reads the report file, since a crash leaves none."""
    del output
    try:
        suites = list(ET.parse(report).getroot().iter("testsuite"))
    except (OSError, ET.ParseError):
        return _honest(code or 1, Tally())
    tally = Tally()
    for suite in suites:
        total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        # A test that passed and whose clean-up then failed stands in the report twice.
        tally += Tally(max(0, total - failed - skipped), failed, skipped)
    return _honest(code, tally)


def _honest(code: int, tally: Tally) -> Tally:
    """A failed run without a failed test is a failure, and so is a run that tested nothing."""
    silent = (code != 0 and tally.failed == 0) or tally.passed + tally.failed + tally.skipped == 0
    return tally + Tally(failed=1) if silent else tally
