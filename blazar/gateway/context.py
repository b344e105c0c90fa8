"""What is known of one HTTP request from its first byte to its last, and how its stream is kept open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Protocol

from blazar import _native
from blazar.gateway.errand import Errand
from blazar.gateway.intake import Intake, Receive

if TYPE_CHECKING:
    from blazar.errors import BlazarError
    from blazar.gateway.silence import Silence
    from blazar.gateway.watch import Watch

Scope = dict[str, Any]
Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]

# Proxies are to pass a stream on as it comes.
UNCACHED: tuple[tuple[str, str], ...] = (("cache-control", "no-cache"), ("x-accel-buffering", "no"))


# What event streams say where they have nothing to say.
_PING = b": ping\n\n"


class Flow(Protocol):
    """A stream's source. ``flowing``: its reader waits for more, so that something may be said in between."""

    @property
    def flowing(self) -> bool:
        """Nothing is on its way to the client now."""

    @property
    def held_back(self) -> bool:
        """The client is slower than the engine."""

    @property
    def told_ns(self) -> int:
        """When something came for the client."""


class Speaker(Protocol):
    """What knows a dialect's words for an idle stream."""

    def keep_alive(self, now_ns: int, /) -> bytes:
        """Something that keeps it open."""


class Context(Errand):
    """One request."""

    __slots__ = (
        "_flow",
        "_inbound",
        "_prelude",
        "_send",
        "_silence",
        "_speaker",
        "_told_ns",
        "_watch",
        "early",
        "gone",
        "intake",
        "scope",
        "streaming",
    )

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, trace: str, watch: Watch, silence: Silence | None = None
    ) -> None:
        super().__init__(trace, dict(scope["headers"]), path=scope["path"])
        self.scope = scope
        self.gone = False
        self.streaming = False
        self.early = False
        self.intake = Intake(receive, self.headers)
        self._send = send
        self._watch = watch
        self._silence = silence
        self._inbound: _native.Inbound | None = None
        self._prelude: _native.Prelude | None = None
        self._flow: Flow | None = None
        self._speaker: Speaker | None = None
        self._told_ns = 0

    def give_back_to(self, mark: int) -> None:
        """What an attempt that failed would have said is not said."""
        self._flow = self._speaker = None
        super().give_back_to(mark)

    def give_everything_back(self) -> None:
        """It is over, and holds nothing any more that holds it: the collector is slow."""
        super().give_everything_back()
        self._flow = self._speaker = self._prelude = self._inbound = None

    def watch_client(self) -> None:
        """From now on, a client that leaves cancels this request. Call once the body has been read."""
        self._watch.add(self)

    def ask_after_client(self) -> None:
        """Have :meth:`_left` called when the client leaves.

        Granian's ``send`` becomes a silent no-op when the client has left; only ``receive`` tells. Its awaitable takes
        a callback, so that watching needs no task.
        """
        leaving: Any = self.intake.rest()
        leaving.add_done_callback(self._left)

    def wrap_send(self, wrap: Callable[[Send], Send]) -> None:
        """Have what is sent pass through ``wrap``."""
        self._send = wrap(self._send)

    def send(self, message: Message) -> Awaitable[None]:
        """Send an ASGI message. The head of a stream that was opened early is not sent twice, and no head before all
        of the request has come.
        """
        if message["type"] == "http.response.start":
            if self.early:
                return _nothing()
            if self.intake.unread:
                return self._send_after_drain(message)
        return self._send(message)

    async def _send_after_drain(self, message: Message) -> None:
        await self.intake.drain()
        await self._send(message)

    def send_more(self, body: bytes) -> Awaitable[object] | None:
        """Send a piece of a body whose beginning is out, without waiting; None, or what is to be awaited before more.

        Granian answers with an awaitable that is done already, unless its channel is full; then with one like a future.
        """
        sent = self._send({"type": "http.response.body", "body": body, "more_body": True})
        return sent if hasattr(sent, "add_done_callback") or isinstance(sent, Coroutine) else None

    @property
    def streams(self) -> bool:
        """Its answer is a stream, begun or not."""
        return self.streaming or self._inbound is not None

    @property
    def outcome(self) -> str:
        """How it ends, if it ends now; ``disconnected`` where its client left."""
        return "disconnected" if self.gone else super().outcome

    # A stream that has nothing to say yet.

    def keep_open(self, inbound: _native.Inbound) -> None:
        """The answer to ``inbound`` is a stream: have its silences broken from now on."""
        if self._silence is not None:
            self._inbound = inbound
            self._told_ns = self.started_ns
            self._silence.add(self)

    def flows(self, flow: Flow, speaker: Speaker) -> None:
        """The answer is on its way through ``flow``."""
        self._flow, self._speaker = flow, speaker

    def quiet_ns(self, now_ns: int) -> int:
        """How long the client has heard nothing."""
        heard_ns = self._told_ns
        if self._flow is not None:
            if self._flow.held_back:
                return 0
            heard_ns = max(heard_ns, self._flow.told_ns)
        return now_ns - heard_ns

    def break_silence(self, now_ns: int) -> None:
        """Say in the client's dialect that it goes on; open its stream if need be."""
        if self.streaming and not (self._flow is not None and self._flow.flowing):
            return
        self._told_ns = now_ns
        prelude = self.prelude()
        if not self.streaming and not self.early:
            head = [("content-type", prelude.content_type), ("x-blazar-trace-id", self.trace), *UNCACHED]
            if self.place is not None and (ahead := self.place.ahead) is not None:
                head.append(("x-blazar-queue-position", str(ahead[0])))
            raw = [(key.encode(), value.encode("latin-1")) for key, value in head]
            self._push(self._send({"type": "http.response.start", "status": 200, "headers": raw}))
            self.early = True
        said = (self._speaker or prelude).keep_alive(now_ns)
        if said == _PING:
            said = self._why_it_waits()
        if said:
            self._push(self.send_more(said))

    def _why_it_waits(self) -> bytes:
        """A comment for people who look, in place of one that says nothing."""
        ahead = self.place.ahead if self.place is not None else None
        if ahead is not None:
            return f": queued, {ahead[0]} before this one, about {ahead[1]:.0f} s\n\n".encode()
        return f": {self.stage}\n\n".encode() if self.exchange is None else _PING

    def failed(self, error: BlazarError) -> bytes:
        """``error`` as the end of a stream that was opened early."""
        return self.prelude().fail(error.status, error.code, error.message, monotonic_ns())

    def prelude(self) -> _native.Prelude:
        """What can be said before an engine answers."""
        if self._prelude is None:
            assert self._inbound is not None
            self._prelude = _native.Prelude(
                self._inbound, id=self.id, created_ns=self.created_ns, started_ns=self.started_ns
            )
        return self._prelude

    def _push(self, sent: Awaitable[object] | None) -> None:
        """Order is kept by the server; nobody waits for it here, and a client that left is told of elsewhere."""
        if isinstance(sent, Coroutine):
            pushed = asyncio.ensure_future(sent)
            self.finally_do(pushed.cancel)

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


async def _nothing() -> None:
    """A message that is not sent."""
