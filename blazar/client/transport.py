"""One request to the daemon over ``http.client``, and the way from its errors back to ours."""

from __future__ import annotations

import http.client
import socket
from urllib.parse import urlsplit

import msgspec

from blazar.client.types import Problem
from blazar.errors import BadGateway, BlazarError, ConfigError, DaemonUnreachable, catalogue

_ERROR_BYTES = 1 << 20


class Address:
    """Where the daemon is: ``http://host:port``, or only ``host:port``."""

    __slots__ = ("host", "port", "url")

    def __init__(self, address: str) -> None:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        if parts.scheme != "http" or not parts.hostname:
            raise ConfigError(f"'{address}' is no address of a daemon: it looks like http://127.0.0.1:11435.")
        self.host = parts.hostname
        self.port = parts.port or 80
        shown = f"[{self.host}]" if ":" in self.host else self.host
        self.url = f"http://{shown}:{self.port}"


class Exchange:
    """One request and its answer on a connection of its own; closing it at any moment ends the work at the daemon."""

    __slots__ = ("_connection", "_response", "address")

    def __init__(self, address: Address, *, timeout: float) -> None:
        self.address = address
        self._connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout)
        self._response: http.client.HTTPResponse | None = None

    def send(self, method: str, path: str, body: bytes | None, key: str | None, wait: float | None) -> int:
        """Send and wait for the head; returns the status. ``DaemonUnreachable`` if nobody takes the connection.

        ``wait`` is how many seconds one read may be silent, from then on too; ``None`` is for ever.
        """
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key:
            headers["Authorization"] = f"Bearer {key}"
        try:
            self._connection.connect()
            self._connection.sock.settimeout(wait)
        except OSError as fault:
            self.close()
            raise DaemonUnreachable(self.address.url) from fault
        try:
            self._connection.request(method, path, body, headers)
            self._response = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as fault:
            self.close()
            raise self.broken() from fault
        except BaseException:
            self.close()
            raise
        return self._response.status

    def read(self) -> bytes:
        """The rest of the body."""
        if self._response is None:
            return b""
        try:
            return self._response.read()
        except (OSError, http.client.HTTPException) as fault:
            raise self.broken() from fault

    def line(self) -> bytes:
        """The next line of the body as soon as it is there; empty at the end."""
        if self._response is None:
            return b""
        try:
            return self._response.readline()
        except (OSError, http.client.HTTPException) as fault:
            raise self.broken() from fault

    def problem(self, status: int) -> BlazarError:
        """The error that a refused request's body tells."""
        body = self._response.read(_ERROR_BYTES) if self._response is not None else b""
        try:
            told = msgspec.json.decode(body, type=Problem)
        except msgspec.DecodeError:
            told = Problem()
        if not told.error:
            return BadGateway(f"What answers at {self.address.url} is no Blazar daemon: it said {status} to a request.")
        retry = self._response.getheader("Retry-After") if self._response is not None else None
        return rebuilt(told.blazar_code, told.error, retry)

    def broken(self) -> BlazarError:
        """The error for a connection that ended before its answer did."""
        return BadGateway(f"The connection to {self.address.url} broke off in the middle of an answer.")

    def close(self) -> None:
        """Give the connection up; the daemon sees it at once."""
        if self._connection.sock is not None:
            try:
                # The response holds the descriptor too, so closing alone would not tell the other side.
                self._connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                # The other side was faster.
                pass
        if self._response is not None:
            self._response.close()
        self._connection.close()


def rebuilt(code: str, sentence: str, retry_after: str | None = None) -> BlazarError:
    """The error of ``code`` with the sentence that the daemon built; of no class of its own if the code is unknown."""
    kind = catalogue().get(code, BlazarError)
    error = kind.__new__(kind)
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    BlazarError.__init__(error, sentence, retry_after=seconds)
    return error
