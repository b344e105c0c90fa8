"""A real ``blazar serve`` in a process of its own, with its own BLAZAR_HOME, for tests that go through sockets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.fleets import program
from tests.support.tiny_model import write

SCRIPTED = Path(__file__).with_name("scripted_engine.py")
BLAZAR = str(Path(sys.executable).with_name("blazar"))


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A running server. ``url`` has no trailing slash."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("BLAZAR_")},
            "BLAZAR_HOME": str(home),
            "BLAZAR_SERVER_PORT": str(self.port),
            "NO_COLOR": "1",
            # Nobody is there: a name that no test put anywhere is looked for on this machine only.
            "BLAZAR_MODELS_REGISTRY": "http://127.0.0.1:9",
            "BLAZAR_MODELS_HUB": "http://127.0.0.1:9",
            **env,
        }
        self.log = home / "serve.log"
        self.process: subprocess.Popen[bytes] | None = None
        # One connection: what it tells is timed.
        self._client = httpx.Client(base_url=self.url, timeout=5)

    def start(self) -> None:
        """Start and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([BLAZAR, "serve"], env=self.env, stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"blazar serve ended with {self.process.returncode}: {self.log.read_text()}")
            try:
                if httpx.get(f"{self.url}/health", timeout=1).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError(f"blazar serve did not answer: {self.log.read_text()}")

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self._client.close()
        return self.process.wait(30)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def cli(self, *args: str, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a ``blazar`` command against this home and server."""
        done = subprocess.run(
            [BLAZAR, *args], env=self.env, input=stdin, capture_output=True, text=True, timeout=120, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"blazar {' '.join(args)} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done

    def ps(self) -> list[dict[str, object]]:
        """The rows of ``/api/ps``."""
        rows: list[dict[str, object]] = self._client.get("/api/ps").json()["models"]
        return rows

    def secret_of(self, model: str) -> str:
        """The secret of the engine that runs ``model``, out of its own environment."""
        row = next(row for row in self.ps() if row["name"] == model)
        pid = row["blazar"]["pid"]  # type: ignore[index]
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return next(pair.partition(b"=")[2].decode() for pair in pairs if pair.startswith(b"LLAMA_API_KEY="))

    def busy_slots(self, model: str) -> int:
        """How many of the engine's slots work, by its own word."""
        slots = self._client.get("/slots", params={"model": model}).json()
        return sum(1 for slot in slots if slot["is_processing"])


def children_of(pid: int) -> set[int]:
    """Every live descendant of ``pid``."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    found: set[int] = set()
    frontier = {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found |= frontier
    return found


@contextmanager
def serving(home: Path, models: dict[str, Path], **env: str) -> Iterator[Server]:
    """A server whose catalogue holds ``models``, by name."""
    home.mkdir(parents=True, exist_ok=True)
    server = Server(home, env)
    for name, path in models.items():
        server.cli("import", str(path), "--name", name)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def scripted(folder: Path, model: str = "scripted", **env: str) -> Iterator[Server]:
    """A server whose one model does what the conversation says (``scripted_engine.py``)."""
    write(folder / f"{model}.gguf", context=131072)
    engine = program(folder, sys.executable, "-I", "-S", str(SCRIPTED))
    settings = {
        "BLAZAR_ENGINE_LLAMACPP_CHANNEL": "local",
        "BLAZAR_ENGINE_LLAMACPP_PATH": str(engine),
        "BLAZAR_ENGINE_CONTEXT": "131072",
    }
    with serving(folder / "home", {model: folder / f"{model}.gguf"}, **settings | env) as running:
        yield running
