from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, daemon

BLAZAR = str(Path(sys.executable).with_name("blazar"))

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def server() -> Iterator[Daemon]:
    with daemon() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def env(home: Path) -> dict[str, str]:
    """Nothing of the machine's own settings, and a port on which nobody listens."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("BLAZAR_")}
    return plain | {"BLAZAR_HOME": str(home), "BLAZAR_SERVER_PORT": "1", "PYTHONWARNINGS": "error"}


@pytest.fixture
def blazar(env: dict[str, str]) -> Run:
    """The real program in a process of its own."""

    def run(*arguments: str, stdin: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BLAZAR, *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            env=env | more,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def with_server(server: Daemon) -> dict[str, str]:
    """The variables that lead to the daemon of the test."""
    return {"BLAZAR_SERVER_PORT": str(server.server_address[1])}
