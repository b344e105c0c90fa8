"""Servers and packages that the tests of foreign clients share."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import Server, serving
from tests.support.server import scripted as scripted_server
from tests.support.tiny_model import write

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The packages of ``package.json``, installed beside it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm on this machine")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--no-package-lock"],
        cwd=HERE, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    modules = HERE / "node_modules"
    # Their own second step, which npm leaves to those who ask for it.
    for package, script in (("@anthropic-ai/claude-code", "install.cjs"), ("opencode-ai", "postinstall.mjs")):
        subprocess.run(["node", script], cwd=modules / package, capture_output=True, timeout=120, check=True)
    return modules


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on a real engine with the tiny model."""
    folder = tmp_path_factory.mktemp("clients")
    write(folder / "tiny.gguf")
    with serving(folder / "home", {"tiny": folder / "tiny.gguf"}, BLAZAR_ENGINE_CONTEXT="1024") as running:
        yield running


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose one model, ``scripted``, calls the tool that the conversation names."""
    with scripted_server(tmp_path_factory.mktemp("scripted")) as running:
        yield running
