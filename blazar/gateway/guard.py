"""What a request must pass before anything is done for it: the Host header and the size of its body."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from blazar.errors import HostForbidden, PayloadTooLarge
from blazar.gateway.due import identify

if TYPE_CHECKING:
    from blazar.admission.keys import Keys
    from blazar.config.schema import Server
    from blazar.gateway.context import Context


def is_loopback(host: str) -> bool:
    """Whether ``host`` names this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


# What is uploaded here goes to the disk piece by piece, of whatever size.
_FILES = ("/api/blobs/", "/v1/files")


class Guard:
    """Checks that need no body. On a loopback bind the Host header must name this machine: a web page that was led here
    by a name of its own (DNS rebinding) carries that name.
    """

    def __init__(self, server: Server, keys: Keys | None = None) -> None:
        self._keys = keys
        self._max_body = server.max_body_bytes
        self._open = not is_loopback(server.host)
        self._known: set[str] = {"localhost", "127.0.0.1", "[::1]", server.host.lower()}
        self._known.update(name.lower() for name in server.allowed_hosts)

    def check(self, context: Context) -> None:
        """Raises HostForbidden or PayloadTooLarge."""
        if not self._open:
            self._check_host(context.header(b"host") or "")
        length = context.header(b"content-length")
        if length is None or context.path.startswith(_FILES):
            return
        if length.isdecimal() and int(length) > self._max_body:
            raise PayloadTooLarge(self._max_body)

    def identify(self, context: Context) -> None:
        """Whose request it is. Raises Unauthorized."""
        if self._keys is not None:
            identify(self._keys, context)

    @property
    def max_body(self) -> int:
        """Largest body, bytes."""
        return self._max_body

    def _check_host(self, host: str) -> None:
        if host in self._known:
            return
        name, _, port = host.rpartition(":")
        if not name or not port.isdecimal():
            name = host
        name = name.lower().rstrip(".")
        if name not in self._known and not name.endswith(".localhost"):
            raise HostForbidden(host)
        if len(self._known) < 64:
            self._known.add(host)  # the same client sends the same header each time
