"""The compiled core: parsing, translation, framing, admission. Stubs are checked against the built module."""

from typing import Final, final

VERSION: Final[str]

class BadInput(ValueError):
    """A request's body is wrong. ``args`` is ``(message, path)``; the path is empty for the whole body."""

@final
class Inbound:
    """One parsed request: the few facts that Python needs; the rest stays in Rust."""

    @property
    def route(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def stream(self) -> bool: ...
    @property
    def load_only(self) -> bool: ...
    @property
    def keep_alive_s(self) -> float | None:
        """Seconds; negative means for ever; None means unsaid."""
    @property
    def num_ctx(self) -> int | None: ...
    @property
    def max_tokens(self) -> int | None: ...
    @property
    def body_bytes(self) -> int: ...
    @property
    def has_tools(self) -> bool: ...
    @property
    def has_images(self) -> bool: ...

def parse(route: str, body: bytes) -> Inbound:
    """Read a body. Routes: ``openai.chat``, ``openai.text``, ``ollama.chat``, ``ollama.generate``, ``anthropic.messages``,
    ``anthropic.count``. Raises BadInput; ValueError for an unknown route."""

def count_request(inbound: Inbound, family: str, alias: str) -> tuple[str, bytes]:
    """Path and body of the engine's request that counts the prompt's tokens."""

PHASE_HEAD: Final[int]
"""Nothing for the client yet."""
PHASE_BODY: Final[int]
"""Bytes for the client flow."""
PHASE_DONE: Final[int]
"""The answer is complete."""
PHASE_FAILED: Final[int]
"""``fault`` is set; if bytes flowed, the dialect's error event is the last of them."""

@final
class Exchange:
    """One request's way to an engine and back, without I/O: HTTP/1.1, event stream, engine decoder, client encoder.

    ``feed`` takes what the engine's socket gave and returns the client's bytes. After ``PHASE_DONE`` or ``PHASE_FAILED``
    further input is ignored. Times are monotonic nanoseconds on the clock of ``started_ns``.
    """

    def __new__(
        cls,
        inbound: Inbound,
        *,
        family: str,
        alias: str,
        host: str,
        secret: str,
        id: str,
        created_ns: int,
        started_ns: int,
        load_ns: int,
    ) -> Exchange: ...
    @property
    def request(self) -> bytes:
        """The whole HTTP request for the engine."""
    @property
    def content_type(self) -> str: ...
    @property
    def phase(self) -> int: ...
    @property
    def reusable(self) -> bool:
        """After ``PHASE_DONE`` or ``PHASE_FAILED``: the engine's connection can carry another request.

        Never after a stream of llama-server: it hangs up then, though it announces to stay.
        """
    @property
    def fault(self) -> tuple[str, str, int | None, int | None] | None:
        """``(kind, message, tokens, context)``; kinds as in ``chat::FaultKind``."""
    @property
    def usage(self) -> tuple[int, int, int] | None:
        """Prompt, cached and completion tokens."""
    @property
    def finish(self) -> str | None:
        """``stop``, ``length``, ``tool_calls`` or ``content_filter`` (choice 0)."""
    @property
    def first_ns(self) -> int | None:
        """When the first text, reasoning or call came."""
    def feed(self, data: bytes, now_ns: int) -> bytes: ...
    def eof(self, now_ns: int) -> bytes:
        """The engine closed its side."""
    def fail(self, kind: str, code: str, message: str, now_ns: int) -> bytes:
        """A failure that only the caller knows; returns the in-stream error if bytes flowed."""
    def keep_alive(self) -> bytes: ...

@final
class Call:
    """A plain HTTP/1.1 request to an engine, its answer kept whole up to ``limit`` bytes."""

    def __new__(cls, method: str, path: str, body: bytes | None, *, host: str, secret: str, limit: int) -> Call: ...
    @property
    def request(self) -> bytes: ...
    @property
    def phase(self) -> int: ...
    @property
    def reusable(self) -> bool: ...
    @property
    def fault(self) -> tuple[str, str, int | None, int | None] | None: ...
    @property
    def status(self) -> int: ...
    @property
    def content_type(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    def feed(self, data: bytes, now_ns: int) -> bytes: ...
    def eof(self, now_ns: int) -> bytes: ...
    def fail(self, kind: str, code: str, message: str, now_ns: int) -> bytes: ...
