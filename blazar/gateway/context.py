"""What is known of one HTTP request from its first byte to its last, and what must be given back when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blazar.gateway.watch import Watch

_log = logging.getLogger("blazar.gateway")

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]


class Context:
    """One request. Whoever acquires a thing leaves its return with :meth:`finally_do`; all are done, the last first,
    when the request is over, however it ends. Marks are monotonic nanoseconds.
    """

    __slots__ = (
        "_receive",
        "_returns",
        "_send",
        "_watch",
        "gone",
        "headers",
        "load_ns",
        "model",
        "over",
        "path",
        "queue_ns",
        "scope",
        "started_ns",
        "status",
        "streaming",
        "task",
        "trace",
        "usage",
        "warnings",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, trace: str, watch: Watch) -> None:
        self.scope = scope
        self.path: str = scope["path"]
        self.trace = trace
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._returns: list[Callable[[], object]] = []
        self.started_ns = monotonic_ns()
        self.task = asyncio.current_task()
        self.gone = False
        self.over = False
        self.status = 200
        self.streaming = False
        self.model = ""
        self.load_ns = 0
        self.queue_ns = 0
        self.usage: tuple[int, int, int] | None = None
        self.warnings: list[str] = []
        self._receive = receive
        self._send = send
        self._watch = watch

    def header(self, name: bytes) -> str | None:
        """The header of that lower-case name."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def finally_do(self, give_back: Callable[[], object]) -> None:
        """Call ``give_back`` when the request is over."""
        self._returns.append(give_back)

    def give_everything_back(self) -> None:
        """The request is over. One return that fails does not keep the others from being done."""
        self.over = True
        while self._returns:
            try:
                self._returns.pop()()
            except Exception:  # noqa: BLE001  (a fault of ours: it is logged, and the rest must still be given back)
                _log.exception("trace %s could not give something back", self.trace)

    def watch_client(self) -> None:
        """From now on, a client that leaves cancels this request. Call once the body has been read."""
        self._watch.add(self)

    def ask_after_client(self) -> None:
        """Have :meth:`_left` called when the client leaves.

        Granian's ``send`` becomes a silent no-op when the client has left; only ``receive`` tells. Its awaitable takes
        a callback, so that watching needs no task.
        """
        leaving: Any = self._receive()
        leaving.add_done_callback(self._left)

    def send_more(self, body: bytes) -> Awaitable[object] | None:
        """Send a piece of a body whose beginning is out, without waiting; None, or what is to be awaited before more.

        Granian answers with an awaitable that is done already, unless its channel is full; then with one like a future.
        """
        sent = self._send({"type": "http.response.body", "body": body, "more_body": True})
        return sent if hasattr(sent, "add_done_callback") or isinstance(sent, Coroutine) else None

    def _left(self, told: Any) -> None:
        if self.over:
            return
        if told.result()["type"] == "http.request":
            self.ask_after_client()  # the empty end of a body whose length was known
        else:
            self.gone = True
            if self.task is not None:
                self.task.cancel()


def of(scope: Scope) -> Context:
    """The context that the shell put into a request's scope."""
    context: Context = scope["blazar"]
    return context
