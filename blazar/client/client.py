"""The daemon's control API as methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

import msgspec

from blazar.client.problems import problem, rebuilt
from blazar.client.stream import Stream
from blazar.client.transport import Address, Exchange
from blazar.client.types import (
    ChatRequest,
    Checkpoint,
    Coreside,
    EngineBuild,
    EngineStep,
    Explanation,
    Fit,
    Health,
    Installed,
    QuantizeStep,
    Running,
    Step,
)
from blazar.errors import BadGateway

T = TypeVar("T")
S = TypeVar("S", bound=Step)

_CONNECT_S = 5.0
_ANSWER_S = 30.0


class _Tags(msgspec.Struct):
    models: tuple[Installed, ...]


class _Ps(msgspec.Struct):
    models: tuple[Running, ...]


class _Builds(msgspec.Struct):
    builds: tuple[EngineBuild, ...]


class _Session(msgspec.Struct):
    checkpoints: tuple[Checkpoint, ...] = ()


class Client:
    """Talks to the daemon at ``address`` (``http://host:port``), with ``key`` where it wants one.

    Every method raises ``DaemonUnreachable`` when nobody listens, and otherwise the error that the daemon reports, as
    the same class with the same sentence. Each call has a connection of its own, so any thread may use a client.
    """

    def __init__(self, address: str, key: str | None = None) -> None:
        self._address = Address(address)
        self._key = key

    @property
    def key(self) -> str | None:
        """What it shows as its key."""
        return self._key

    @property
    def host(self) -> str:
        """The name or address that it asks."""
        return self._address.host

    @property
    def port(self) -> int:
        """The port that it asks."""
        return self._address.port

    @property
    def address(self) -> str:
        """Where the daemon is, as a URL without a path."""
        return self._address.url

    def health(self, *, timeout: float = 5.0) -> Health:
        """That the daemon answers, and its version. ``BadGateway`` if something else listens there."""
        health = self._ask("GET", "/health", None, Health, timeout=timeout)
        if not health.version:
            raise BadGateway(f"What answers at {self.address} is no Blazar daemon.")
        return health

    def tags(self) -> tuple[Installed, ...]:
        """The models of the catalogue."""
        return self._ask("GET", "/api/tags", None, _Tags).models

    def ps(self) -> tuple[Running, ...]:
        """The models in memory."""
        return self._ask("GET", "/api/ps", None, _Ps).models

    def show(self, model: str, *, verbose: bool = False) -> dict[str, Any]:
        """What ``/api/show`` says of a model; keys as in Ollama."""
        return self._ask("POST", "/api/show", {"model": model, "verbose": verbose}, dict[str, Any])

    def unload(self, model: str) -> None:
        """Take a model out of memory when its last request is done."""
        body = {"model": model, "keep_alive": 0, "stream": False}
        self._ask("POST", "/api/generate", body, dict[str, Any], timeout=None)

    def load(self, model: str) -> None:
        """Bring a model into memory; returns when it answers."""
        self._ask("POST", "/api/generate", {"model": model, "stream": False}, dict[str, Any], timeout=None)

    def reset(self, model: str) -> None:
        """Forget a model's crashes, so that it may be started at once."""
        self._ask("POST", "/api/reset", {"model": model}, dict[str, Any])

    def coreside(self, models: Sequence[str] = ()) -> Coreside:
        """Which models fit in memory together; all of them without ``models``."""
        query = urlencode([("model", name) for name in models])
        return self._ask("GET", f"/api/coreside?{query}", None, Coreside)

    def explain(self, model: str) -> Explanation:
        """Which build runs ``model``, why, and what each other one lacks."""
        return self._ask("GET", f"/api/explain?{urlencode({'model': model})}", None, Explanation, timeout=None)

    def fit(self, model: str, context: int = 0, cache_type: str = "") -> Fit:
        """Whether ``model`` fits this machine, in each of its quantisations; nothing is fetched but its header."""
        query = urlencode({"model": model, "context": context, "cache_type": cache_type})
        return self._ask("GET", f"/api/fit?{query}", None, Fit, timeout=None)

    def builds(self) -> tuple[EngineBuild, ...]:
        """The builds of engines, the one that is used first."""
        return self._ask("GET", "/api/engines", None, _Builds, timeout=None).builds

    def engine(self, action: str, **fields: Any) -> Iterator[EngineStep]:
        """Work on builds; its steps as they come, the last with what came of it. Leaving the iterator ends the work."""
        return self._work("/api/engines", {"action": action, **fields}, EngineStep)

    def quantize(self, model: str, type_: str, **fields: Any) -> Iterator[QuantizeStep]:
        """Make a smaller model; its steps as they come, the last with what came of it. Leaving the iterator ends it."""
        return self._work("/api/quantize", {"model": model, "type": type_, **fields}, QuantizeStep)

    def _work(self, path: str, body: dict[str, Any], kind: type[S]) -> Iterator[S]:
        exchange = Exchange(self._address)
        try:
            self._send(exchange, "POST", path, body, timeout=None)
            while line := exchange.line():
                step = msgspec.json.decode(line, type=kind)
                if step.error is not None:
                    raise rebuilt(step.blazar_code, step.error)
                yield step
                if step.status == "success":
                    return
            raise exchange.broken()
        finally:
            exchange.close()

    def checkpoint(self, action: Literal["save", "restore"], model: str, name: str) -> Checkpoint:
        """Save what a model has read under ``name``, or give it back."""
        body = {"action": action, "model": model, "name": name}
        return self._ask("POST", "/api/session", body, Checkpoint, timeout=None)

    def remove_checkpoint(self, model: str, name: str) -> None:
        """Remove what was saved."""
        self._ask("POST", "/api/session", {"action": "rm", "model": model, "name": name}, dict[str, Any])

    def checkpoints(self, model: str) -> tuple[Checkpoint, ...]:
        """What was saved of a model, the oldest first."""
        return self._ask("GET", f"/api/session?{urlencode({'model': model})}", None, _Session).checkpoints

    def chat(self, request: ChatRequest) -> Stream:
        """Ask for a streamed answer. A load may come first, so the wait has no bound; closing the stream ends it."""
        exchange = Exchange(self._address)
        self._send(exchange, "POST", "/api/chat", request, timeout=None)
        return Stream(exchange)

    def _ask(self, method: str, path: str, body: Any, kind: type[T], *, timeout: float | None = _ANSWER_S) -> T:
        exchange = Exchange(self._address)
        try:
            self._send(exchange, method, path, body, timeout=timeout)
            content = exchange.read()
        finally:
            exchange.close()
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.DecodeError as fault:
            raise BadGateway(f"What answers at {self.address} is no Blazar daemon: {path} made no sense.") from fault

    def _send(self, exchange: Exchange, method: str, path: str, body: Any, *, timeout: float | None) -> None:
        content = None if body is None else msgspec.json.encode(body)
        status = exchange.send(method, path, content, self._key, connect=_CONNECT_S, wait=timeout)
        if status >= 300:
            try:
                raise problem(exchange, status)
            finally:
                exchange.close()
