"""Servers and models that the end-to-end tests share. Every engine here is real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import Server, serving
from tests.support.tiny_model import write


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of 435 KB that decodes thousands of tokens a second, in bytes that split UTF-8."""
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write(path)
    return path


@pytest.fixture(scope="session")
def tiny_slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with more layers: a few hundred tokens a second, slow enough to be interrupted."""
    path = tmp_path_factory.mktemp("models") / "slow.gguf"
    write(path, layers=12, width=128, context=16384)
    return path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Iterator[Server]:
    """A server with the tiny model at eight slots."""
    home = tmp_path_factory.mktemp("home")
    with serving(home, {"tiny": tiny}, BLAZAR_ENGINE_SLOTS="8", BLAZAR_ENGINE_CONTEXT="512") as running:
        yield running
