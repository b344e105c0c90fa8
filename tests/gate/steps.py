"""What the gate checks, in the order in which a fault is cheapest to learn of."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from tests.gate.count import Count, cargo, contracts, once, pytest

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
HERE = Path(PYTHON).parent


class Step(msgspec.Struct, frozen=True):
    """One command. ``limit_s`` bounds it; ``count`` reads from its output, its report and its exit code what passed."""

    name: str
    what: str
    command: tuple[str, ...]
    count: Count = once
    limit_s: float = 600


def _native_bench(name: str, what: str) -> Step:
    command = ("cargo", "bench", "--locked", "--profile", "dev", "-p", "blazar-benches", "--bench", name)
    return Step(name, what, (*command, "--", "--smoke"))


# The same examples in each run: what a new draw finds is looked for by hand.
_DRAWN = ("--hypothesis-seed=1",)


def _pytest(name: str, what: str, *words: str, limit_s: float = 900) -> Step:
    return Step(
        name,
        what,
        (
            PYTHON,
            "-m",
            "pytest",
            "--continue-on-collection-errors",
            *_DRAWN,
            "--junit-xml={report}",
            *words,
        ),
        pytest,
        limit_s,
    )


_LOAD = ("--manifest-path", "benches/load/Cargo.toml")
_NO_WARNING = ("--", "-D", "warnings")

STEPS: tuple[Step, ...] = (
    Step("ruff", "Python lint", (PYTHON, "-m", "ruff", "check", ".")),
    Step("ruff-format", "Python format", (PYTHON, "-m", "ruff", "format", "--check", ".")),
    Step("mypy", "types, strict", (PYTHON, "-m", "mypy")),
    Step(
        "stubs",
        "the stubs against the compiled modules",
        (
            PYTHON,
            "-m",
            "mypy.stubtest",
            "blazar._native",
            "blazar.memory._kernel",
            "blazar.admission._nearest",
            "--allowlist",
            "tests/stubs.allow",
        ),
    ),
    Step("imports", "the layers of setup.cfg", (str(HERE / "lint-imports"),), contracts),
    Step("rustfmt", "Rust format", ("cargo", "fmt", "--all", "--check")),
    Step(
        "rustfmt-load",
        "Rust format of the load bench",
        ("cargo", "fmt", *_LOAD, "--check", "--", "--config-path", ".rustfmt.toml"),
    ),
    Step("clippy", "Rust lint", ("cargo", "clippy", "--locked", "--workspace", "--all-targets", *_NO_WARNING)),
    Step(
        "clippy-load",
        "Rust lint of the load bench",
        ("cargo", "clippy", "--locked", "--release", *_LOAD, "--all-targets", *_NO_WARNING),
    ),
    Step("cargo", "tests of the native core", ("cargo", "test", "--locked", "-p", "blazar-core"), cargo, 1200),
    Step("cargo-load", "tests of the load bench", ("cargo", "test", "--locked", "--release", *_LOAD), cargo),
    _pytest(
        "pytest",
        "unit, golden, architecture, documents",
        "tests",
        *(f"--ignore=tests/{part}" for part in ("process", "e2e", "clients", "test_wheel.py")),
    ),
    _pytest("process", "real children", "tests/process"),
    _pytest("e2e", "a real engine, the official SDKs", "tests/e2e", limit_s=1500),
    _pytest("clients", "packages for Node, and agents as people run them", "tests/clients", limit_s=900),
    _native_bench("feed", "what a chunk costs in the core, once"),
    _native_bench("translate", "what translation costs in the core, once"),
    _native_bench("queue", "what a turn in the waiting list costs, once"),
    Step("header", "reading a large header, twice", (PYTHON, "-m", "benches.header", "--smoke")),
    Step("grid", "the memory of 100,000 candidates, twice", (PYTHON, "-m", "benches.grid", "--smoke")),
    Step("footprint", "memory as planned and as taken, twice", (PYTHON, "-m", "benches.footprint", "--smoke")),
    Step("pull", "a file against curl, twice", (PYTHON, "-m", "benches.pull", "--smoke")),
    Step("startup", "the start of the command line, twice", (PYTHON, "-m", "benches.startup", "--smoke")),
    Step("load", "the load bench, a few seconds of it", (PYTHON, "-m", "benches.load.run", "--smoke")),
    _pytest("wheel", "sdist, wheel, and every way to install", "tests/test_wheel.py", limit_s=1500),
)
