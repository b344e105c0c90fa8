"""The body of a request on its way in, so that what nobody read is read before the answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

Receive = Callable[[], Awaitable[dict[str, Any]]]

# How long a client may go on sending what nobody wants before it is answered and cut off.
PATIENCE_S = 5.0


class Intake:
    """ASGI's ``receive`` for one request. It knows whether all of the body has come.

    A client that is answered while it still sends gets a broken connection and never reads why: the server closes it
    with bytes unread, and TCP tells the client that as a reset. So whoever refuses early has the rest read first.
    """

    __slots__ = ("_asked", "_awaits_leave", "_left", "_receive")

    def __init__(self, receive: Receive, headers: dict[bytes, bytes]) -> None:
        self._receive = receive
        self._asked = False
        length = headers.get(b"content-length")
        if length is None:
            self._left = -1 if b"transfer-encoding" in headers else 0
        else:
            self._left = int(length) if length.isdigit() else 0
        # Who asks before it sends is told by the answer itself.
        self._awaits_leave = headers.get(b"expect", b"").lower() == b"100-continue"

    async def __call__(self) -> dict[str, Any]:
        """The next message."""
        self._asked = True
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            self._left = 0
        elif self._left > 0:
            self._left = max(0, self._left - len(message["body"]))
        return message

    def rest(self) -> Awaitable[dict[str, Any]]:
        """The server's own awaitable for what comes after the body: that the client leaves."""
        return self._receive()

    @property
    def unread(self) -> bool:
        """The client may still be sending."""
        return self._left != 0 and (self._asked or not self._awaits_leave)

    async def drain(self) -> None:
        """Read what is left and forget it, for :data:`PATIENCE_S` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while self.unread:
                    await self()
