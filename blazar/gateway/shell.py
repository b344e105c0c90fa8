"""Around the Falcon app: the trace id, the guard, the client that leaves, and the return of everything at the end."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from blazar.errors import BlazarError, Internal, OriginForbidden, ShuttingDown
from blazar.gateway import errors
from blazar.gateway.context import Context, Message, Scope, Send
from blazar.gateway.intake import Receive
from blazar.gateway.register import Register
from blazar.gateway.silence import Silence
from blazar.gateway.watch import Watch

if TYPE_CHECKING:
    import signal
    from collections.abc import Awaitable, Callable, Coroutine

    from blazar.gateway.context import ASGI
    from blazar.gateway.guard import Guard

_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
_log = logging.getLogger("blazar.gateway")


class Shell:
    """An ASGI app around ``app``. ``startup`` and ``shutdown`` are awaited from the server's lifespan.

    The signal ``close_on`` begins the shutdown early: servers end the lifespan only after the last answer has ended,
    and it is the shutdown that ends the answers.
    """

    def __init__(
        self,
        app: ASGI,
        guard: Guard,
        *,
        startup: Callable[[], Awaitable[None]],
        shutdown: Callable[[], Coroutine[Any, Any, None]],
        cors_origins: tuple[str, ...] = (),
        close_on: signal.Signals | None = None,
        ping_s: float = 0,
        register: Register | None = None,
    ) -> None:
        self._app = app
        self._guard = guard
        self._startup = startup
        self._shutdown = shutdown
        self._origins = cors_origins
        self._close_on = close_on
        self._closed: asyncio.Task[None] | None = None
        self._prefix = f"plm-{secrets.token_hex(4)}-"
        self._numbers = itertools.count(1)
        self._register = Register() if register is None else register
        self._watch = Watch()
        self._silence = Silence(ping_s)
        self._closing = False

    @property
    def live(self) -> int:
        """Requests that are being answered."""
        return len(self._register.live)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection's scope, as ASGI calls it."""
        kind = scope["type"]
        if kind == "http":
            await self._request(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self._app(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if "//" in path or (len(path) > 1 and path[-1] == "/") or path.startswith("/v1/v1/"):
            scope["path"] = _plain(path)
        trace = f"{self._prefix}{next(self._numbers)}"
        context = scope["blazar"] = Context(scope, receive, send, trace, self._watch, self._silence)
        self._register.add(context)
        try:
            if self._closing:
                raise ShuttingDown
            self._guard.check(context)
            if scope["method"] == "OPTIONS" or context.header(b"origin") is not None:
                self._allow_origin(context)
                if scope["method"] == "OPTIONS":
                    await self._preflight(context.send)
                    return
            self._guard.identify(context)
            await self._app(scope, context.intake, context.send)
        except asyncio.CancelledError:
            if not await self._ended(context):
                raise
        except BlazarError as error:
            await self._refuse(context, error)
        except Exception:
            _log.exception("trace %s %s", context.trace, context.path)
            if context.streaming:
                raise  # the head is out; the server cuts the connection
            await self._refuse(context, Internal(context.trace))
        finally:
            self._register.close(context)
            del scope["blazar"]  # they hold each other, and the collector is slow
            if _log.isEnabledFor(logging.DEBUG):
                took = (monotonic_ns() - context.started_ns) / 1e6
                _log.debug(
                    "%s %s %s %d %.1fms %s", context.trace, scope["method"], path, context.status, took, context.model
                )

    async def _ended(self, context: Context) -> bool:
        """Whether a request that was cancelled was ended on purpose; its client, if it is there, hears of it."""
        context.status = 499
        if context.refusal is not None and not context.gone:
            await self._refuse(context, context.refusal)
            return True
        return context.gone or self._closing

    async def _refuse(self, context: Context, error: BlazarError) -> None:
        context.status = error.status
        if context.early:
            await context.send({"type": "http.response.body", "body": context.failed(error)})
            return
        dialect = errors.dialect_of(context.path, context.scope["headers"])
        status, headers, body = errors.render(error, dialect, context.trace)
        raw = [(key.encode(), value.encode("latin-1", "replace")) for key, value in headers]
        raw.append((b"content-length", str(len(body)).encode()))
        await context.send({"type": "http.response.start", "status": status, "headers": raw})
        await context.send({"type": "http.response.body", "body": body})

    def _allowed_origin(self, context: Context) -> str | None:
        origin = context.header(b"origin")
        if origin is None:
            return None
        if "*" in self._origins or origin in self._origins:
            return origin
        scheme, _, rest = origin.rpartition("://")
        # Programs that are built like pages (extensions, editors, desktop shells) are no pages of the web.
        own = rest.rsplit(":", 1)[0] in _LOCAL or (scheme and scheme not in {"http", "https"})
        own = own or rest == context.header(b"host")
        return origin if own else None

    def _allow_origin(self, context: Context) -> None:
        """Let the page that asks read the answer. Raises OriginForbidden."""
        origin = self._allowed_origin(context)
        if origin is None:
            # Not being able to read the answer would not keep a page from having it made.
            if (asked := context.header(b"origin")) is not None:
                raise OriginForbidden(asked)
            return
        extra = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]

        def wrap(send: Send) -> Send:
            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], *extra]
                await send(message)

            return sending

        context.wrap_send(wrap)

    async def _preflight(self, send: Send) -> None:
        headers = [
            (b"access-control-allow-methods", b"GET, POST, PUT, DELETE, HEAD, OPTIONS"),
            (b"access-control-allow-headers", b"*, authorization"),
            (b"access-control-max-age", b"600"),
            (b"content-length", b"0"),
        ]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._startup()
        except BlazarError as error:
            await send({"type": "lifespan.startup.failed", "message": error.message})
            return
        await send({"type": "lifespan.startup.complete"})
        if self._close_on is not None:
            asyncio.get_running_loop().add_signal_handler(self._close_on, self._close)
        await receive()
        await self._close()
        await send({"type": "lifespan.shutdown.complete"})

    def _close(self) -> asyncio.Task[None]:
        """Refuse what comes and end what runs, once."""
        self._closing = True
        if self._closed is None:
            self._closed = asyncio.ensure_future(self._shutdown())
        return self._closed


def _plain(path: str) -> str:
    """``path`` without the slashes that are too many, and without the ``/v1`` of clients whose base URL ends in it."""
    plain = "/" + "/".join(part for part in path.split("/") if part)
    return plain.removeprefix("/v1") if plain.startswith("/v1/v1/") else plain
