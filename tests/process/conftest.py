"""Real children. The loop is the one that the gateway runs on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from blazar.config.schema import Config as Options
from tests.support import tiny_model
from tests.support.fleets import Fakes, config, fake_program


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    tiny_model.write(path)
    return path


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short enough for Unix sockets."""
    return tmp_path_factory.mktemp("h")


@pytest.fixture
def fakes(tmp_path: Path) -> Fakes:
    return Fakes(tmp_path)


@pytest.fixture
def faked(tmp_path: Path) -> Options:
    """Options that run every model with the engine that misbehaves on request."""
    return config(engine={"llamacpp_channel": "local", "llamacpp_path": str(fake_program(tmp_path))})


@pytest.fixture
def gpu(tmp_path: Path) -> Options:
    """The same with a build that says it reaches NVIDIA's GPUs."""
    return config(engine={"llamacpp_channel": "local", "llamacpp_path": str(fake_program(tmp_path, "--cuda"))})


@pytest.fixture(autouse=True)
def _no_child_left() -> Iterator[None]:
    """Whatever a test does, no child of this process may outlive it, not even as a zombie."""
    before = _children()
    yield
    assert _children() <= before


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
