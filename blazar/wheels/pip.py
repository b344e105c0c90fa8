"""Our interpreter's pip, run as a child: the one way to the package index, so that a mirror set for pip is honoured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from blazar.errors import BadRequest, DownloadFailed

Report = Callable[[int, int | None], None]
"""Called with the bytes that have come and the bytes there are (``None`` when the index does not say)."""

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?P<versions>(?:[<>=!~]=?=?\s*[\w.*+!-]+\s*,?\s*)*)"
)
# ``python -m pip``, which on Linux is killed when the process that is its argument is (prctl(2), PR_SET_PDEATHSIG).
_START = """
import ctypes, os, runpy, sys
parent = int(sys.argv.pop(1))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != parent:
    os._exit(1)
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_MISSING = re.compile(r"No matching distribution found|Could not find a version that satisfies")


class NoSuchWheel(DownloadFailed):
    """The index has no wheel of this name and version."""


def canonical(package: str) -> str:
    """The form in which two spellings of one package name are equal."""
    return re.sub(r"[-_.]+", "-", package).lower()


def download(requirement: str, into: Path, extra_args: Sequence[str] = (), report: Report | None = None) -> Path:
    """Fetch the wheel of ``requirement`` alone (``name`` or ``name==version``) into the folder ``into``, by its path.

    A wheel that is there already and whole is not fetched again. Nothing is built and nothing is kept in pip's cache.
    An exception out of ``report`` (and Ctrl-C) ends pip at once and leaves ``into`` fit for another try. Raises
    ``NoSuchWheel``, or ``DownloadFailed`` with pip's own words.
    """
    match = _REQUIREMENT.fullmatch(requirement.strip())
    if match is None:
        raise BadRequest(f"'{requirement}' is not a package name with an optional version, such as 'name==1.0'.")
    into.mkdir(parents=True, exist_ok=True)
    scratch = into / ".pip"
    scratch.mkdir(exist_ok=True)
    command = [
        sys.executable, "-P", "-c", _START, str(os.getpid()), "download", "--no-deps", "--only-binary", ":all:",
        "--progress-bar", "raw", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--dest", str(into),
        *extra_args, "--", requirement,
    ]  # fmt: skip
    # pip's temporary files go where ours are, so that a pip that was killed leaves nothing in the system's folder.
    env = {**os.environ, "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"}
    words = _run(command, env, report)
    if words is not None:
        raise _failure(requirement, words)
    return _newest(into, match["name"])


def _run(command: Sequence[str], env: dict[str, str], report: Report | None) -> list[str] | None:
    """Run pip to its end; ``None`` when it succeeded, else its last lines."""
    # Its own session: a Ctrl-C at the terminal reaches us alone, and we end pip.
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    last: deque[str] = deque(maxlen=40)
    try:
        assert child.stdout is not None
        for line in child.stdout:
            if progress := _PROGRESS.match(line):
                if report is not None:
                    report(int(progress[1]), int(progress[2]) or None)
            elif line.strip():
                last.append(line.strip())
        return None if child.wait() == 0 else list(last)
    finally:
        _end(child)


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(3)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _failure(requirement: str, words: Sequence[str]) -> DownloadFailed:
    errors = [line.removeprefix("ERROR:").strip() for line in words if line.startswith("ERROR:")]
    if any(_MISSING.search(line) for line in errors):
        # A network that is down looks the same at the end; then pip's warnings tell.
        warned = [line.removeprefix("WARNING:").strip() for line in words if line.startswith("WARNING: Retrying")]
        if warned:
            return DownloadFailed(requirement, f"pip cannot reach the package index ({warned[-1][:300].rstrip('.')})")
        return NoSuchWheel(
            requirement, "pip finds no wheel of that name and version (packages that come only as source are not built)"
        )
    if any("No module named pip" in line for line in words):
        return DownloadFailed(requirement, f"{sys.executable} has no pip; install it with 'python -m ensurepip'")
    said = " ".join(errors or list(words)[-3:])[:600].rstrip(".")
    return DownloadFailed(requirement, f"pip says: {said}" if said else "pip failed without a word")


def _newest(folder: Path, package: str) -> Path:
    found = [p for p in folder.glob("*.whl") if canonical(p.name.split("-", 1)[0]) == canonical(package)]
    if not found:
        raise DownloadFailed(package, f"pip reported success and left no wheel in {folder}")
    return max(found, key=lambda path: path.stat().st_mtime_ns)
