"""Two builds against each other: how fast each writes with the same model, in turn on the same machine."""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from blazar import hardware
from blazar.engines.base import Address, Build, Settings
from blazar.engines.install.child import tied
from blazar.engines.llamacpp import LlamaCpp
from blazar.errors import ConfigError

if TYPE_CHECKING:
    from blazar.models.catalogue import Model

SLOWER = 0.9
"""A new build that writes at less than this part of the old one's speed is not kept."""
_ROUNDS, _TOKENS, _CONTEXT = 7, 48, 512
_LOAD_S, _ANSWER_S, _LEAVE_S = 120.0, 120.0, 5.0
_PROMPT = "The quick brown fox jumps over the lazy dog. " * 4
# Beside weights and cache, each of the two takes about this much.
_SPARE = 500 << 20

Tell = Callable[[str], None]


class Speeds(msgspec.Struct, frozen=True):
    """Tokens a second, the median of the rounds."""

    model: str
    old: float
    new: float

    @property
    def slower(self) -> bool:
        """The new one is too slow to be kept."""
        return self.new < SLOWER * self.old


def opponent(models: tuple[Model, ...]) -> Model | None:
    """The model to try builds with: the smallest that writes and of which two fit into memory now."""
    able = [model for model in models if "completion" in model.capabilities and Path(model.files[0]).is_file()]
    smallest = min(able, key=lambda model: model.size, default=None)
    if smallest is None or 2 * (smallest.size * 11 // 10 + _SPARE) > hardware.available_memory():
        return None
    return smallest


def contest(model: Model, old: Build, new: Build, tell: Tell) -> Speeds:
    """Let both write in turn. Whoever starts second in a round changes. Raises ConfigError when one does not answer."""

    def alive() -> None:
        tell(f"{new.tag} against {old.tag} with {model.name}")

    alive()
    taken: dict[str, list[float]] = {"old": [], "new": []}
    with ExitStack() as stack:
        sides = {
            side: stack.enter_context(_running(model, build, alive)) for side, build in (("old", old), ("new", new))
        }
        for number in range(_ROUNDS + 1):
            for side in sorted(sides, reverse=bool(number % 2)):
                speed = _write(sides[side])
                if number:  # the first one warms up
                    taken[side].append(speed)
            alive()
    return Speeds(model.name, statistics.median(taken["old"]), statistics.median(taken["new"]))


def trial(model: Model, build: Build, tell: Tell) -> None:
    """Let one write. Raises ConfigError when it does not answer."""

    def alive() -> None:
        tell(f"{build.tag} with {model.name}")

    alive()
    with _running(model, build, alive) as side:
        _write(side)


class _Side(msgspec.Struct, frozen=True):
    build: Build
    path: str
    secret: str

    def ask(self, method: str, route: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        """Status and body."""
        connection = _Connection(self.path)
        try:
            headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"}
            connection.request(method, route, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def _running(model: Model, build: Build, alive: Callable[[], None]) -> Iterator[_Side]:
    """A child of its own, gone at the end. ``alive`` is called while it loads, and may raise."""
    adapter = LlamaCpp()
    with tempfile.TemporaryDirectory(prefix="blazar-") as folder:
        scratch, secret = Path(folder), secrets.token_urlsafe(24)
        path = str(scratch / "s.sock")
        settings = Settings(
            context=_CONTEXT, slots=1, threads=hardware.usable_cores(), gpu_layers=-1 if build.backends else 0
        )
        plan = adapter.launch(model, build, settings, address=Address(unix=path), secret=secret, scratch=scratch)
        with (scratch / "log").open("wb") as log:
            child = subprocess.Popen(
                tied(plan.argv),
                env=dict(plan.env),
                cwd=plan.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            side = _Side(build, path, secret)
            _until_ready(side, child, scratch / "log", alive)
            yield side
        finally:
            child.terminate()
            try:
                child.wait(_LEAVE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _until_ready(side: _Side, child: subprocess.Popen[bytes], log: Path, alive: Callable[[], None]) -> None:
    until = time.monotonic() + _LOAD_S
    while time.monotonic() < until and child.poll() is None:
        try:
            if side.ask("GET", "/health")[0] == 200:
                return
        except (OSError, http.client.HTTPException):
            alive()  # it does not listen yet
        time.sleep(0.05)
    said = " | ".join(LlamaCpp().telling(log.read_text(errors="replace").splitlines(), 3))
    raise ConfigError(f"The build {side.build.tag} does not load the model it was to be tried with: {said}")


def _write(side: _Side) -> float:
    body = {
        "prompt": _PROMPT,
        "n_predict": _TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    try:
        status, answer = side.ask("POST", "/completion", body)
        if status == 200:
            return float(json.loads(answer)["timings"]["predicted_per_second"])
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        raise ConfigError(f"The build {side.build.tag} does not answer as it should: {error}") from error
    raise ConfigError(f"The build {side.build.tag} refuses to write: {answer[:200].decode(errors='replace')}")


class _Connection(http.client.HTTPConnection):
    """Over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
