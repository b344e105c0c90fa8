"""What is known of one HTTP request from its first byte to its last, and what must be given back when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from time import monotonic_ns
from typing import Any

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]


class Context:
    """One request. ``stack`` is unwound when the request is over, however it ends; whoever acquires a thing puts its
    return there. Marks are monotonic nanoseconds.
    """

    __slots__ = (
        "_receive",
        "gone",
        "load_ns",
        "model",
        "over",
        "path",
        "queue_ns",
        "scope",
        "stack",
        "streaming",
        "started_ns",
        "status",
        "task",
        "trace",
        "usage",
    )

    def __init__(self, scope: Scope, receive: Receive, trace: str) -> None:
        self.scope = scope
        self.path: str = scope["path"]
        self.trace = trace
        self.stack = ExitStack()
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
        self._receive = receive

    def header(self, name: bytes) -> str | None:
        """The first header of that lower-case name."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value, "latin-1")
        return None

    def watch_client(self) -> None:
        """From now on, a client that leaves cancels this request. Call once the body has been read.

        Granian's ``send`` becomes a silent no-op when the client has left; only ``receive`` tells. Its awaitable takes
        a callback, so that watching needs no task.
        """
        leaving: Any = self._receive()
        leaving.add_done_callback(self._left)

    def _left(self, told: Any) -> None:
        if self.over:
            return
        if told.result()["type"] == "http.request":
            self.watch_client()  # the empty end of a body whose length was known
        else:
            self.gone = True
            if self.task is not None:
                self.task.cancel()


def of(scope: Scope) -> Context:
    """The context that the shell put into a request's scope."""
    context: Context = scope["blazar"]
    return context
