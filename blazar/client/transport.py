"""One HTTP/1.1 request to the daemon on a socket of its own.

The library's own ``http.client`` would load TLS and the whole of mail to read a dozen headers: 25 ms at the start of
every command. A daemon on this machine needs a head, and a body with a length, in chunks, or to the end.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from io import BufferedReader

from blazar.errors import BadGateway, BlazarError, ConfigError, DaemonUnreachable

_LONGEST_LINE = 64 << 10
_LONGEST_BODY = 256 << 20
_MOST_HEADERS = 200


class Address:
    """Where the daemon is: ``http://host:port``, or only ``host:port``; an IPv6 host stands in brackets."""

    __slots__ = ("host", "port", "url")

    def __init__(self, address: str) -> None:
        scheme, found, rest = address.rpartition("://")
        host, colon, port = rest.rstrip("/").rpartition(":")
        if (found and scheme != "http") or not colon or not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"'{address}' is no address of a daemon: it looks like http://127.0.0.1:11435.")
        self.host = host.strip("[]")
        self.port = int(port)
        self.url = f"http://{host}:{port}"


class Exchange:
    """One request and its answer; closing it at any moment ends the work at the daemon."""

    __slots__ = ("_chunked", "_left", "_line", "_socket", "_stream", "address", "headers")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.headers: dict[str, str] = {}
        self._socket: socket.socket | None = None
        self._stream: BufferedReader | None = None
        self._chunked = False
        # Bytes that the body, or the present chunk of it, still has; negative means to the end of the connection.
        self._left = 0
        self._line = b""

    def send(
        self, method: str, path: str, body: bytes | None, key: str | None, *, connect: float, wait: float | None
    ) -> int:
        """Send, and wait for the head; returns the status. Seconds: to ``connect``, and that one read may be silent.

        :raises DaemonUnreachable: if nobody takes the connection.
        :raises BadGateway: if what comes back is no answer.
        """
        try:
            self._socket = socket.create_connection((self._name(), self.address.port), connect)  # type: ignore[arg-type]
        except OSError as fault:
            raise DaemonUnreachable(self.address.url) from fault
        try:
            self._socket.settimeout(wait)
            self._stream = self._socket.makefile("rb")
            self._socket.sendall(self._request(method, path, body, key))
            return self._head()
        except (OSError, ValueError) as fault:
            self.close()
            raise self.broken() from fault
        except BaseException:
            self.close()
            raise

    def read(self) -> bytes:
        """The rest of the body."""
        parts, size = [], 0
        while part := self._part():
            parts.append(part)
            size += len(part)
            if size > _LONGEST_BODY:
                raise self.broken()
        return b"".join(parts)

    def line(self) -> bytes:
        """The next line of the body as soon as it is there, with its end; empty after the last."""
        while b"\n" not in self._line:
            part = self._part()
            if not part:
                line, self._line = self._line, b""
                return line
            self._line += part
        line, _, self._line = self._line.partition(b"\n")
        return line + b"\n"

    def broken(self) -> BlazarError:
        """The error for a connection that ended before its answer did."""
        return BadGateway(f"The connection to {self.address.url} broke off in the middle of an answer.")

    def close(self) -> None:
        """Give the connection up; the daemon sees it at once."""
        if self._socket is None:
            return
        # The stream holds the descriptor too, so closing alone would tell the other side nothing.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._stream is not None:
            self._stream.close()
        self._socket.close()
        self._socket = None

    def _name(self) -> str | bytes:
        # Bytes are looked up as they are; text would first load the tables of international names.
        return self.address.host.encode() if self.address.host.isascii() else self.address.host

    def _request(self, method: str, path: str, body: bytes | None, key: str | None) -> bytes:
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{self.address.port}", "Accept: application/json"]
        lines.append("Connection: close")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        if key:
            lines.append(f"Authorization: Bearer {key}")
        if any("\r" in line or "\n" in line for line in lines):
            raise ConfigError("The API key in BLAZAR_API_KEY holds a line break.")
        return "\r\n".join([*lines, "", ""]).encode() + (body or b"")

    def _head(self) -> int:
        version, status = self._header_line().split(" ", 2)[:2]
        if not version.startswith("HTTP/1."):
            raise ValueError(version)
        for _ in range(_MOST_HEADERS):
            line = self._header_line()
            if not line:
                break
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        else:
            raise ValueError("headers without end")
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length")
        self._left = 0 if self._chunked else -1 if length is None else int(length)
        return int(status)

    def _header_line(self) -> str:
        line = self._stream_now().readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise ValueError("a head without end")
        return line.decode("latin-1").rstrip("\r\n")

    def _stream_now(self) -> BufferedReader:
        if self._stream is None:
            raise ValueError("no connection")
        return self._stream

    def _part(self) -> bytes:
        """What has come of the body, at least a byte of it; empty at its end."""
        if self._socket is None:
            return b""
        try:
            if self._chunked and self._left == 0:
                self._left = int(self._header_line().partition(";")[0], 16)
                if self._left == 0:
                    self._chunked = False
                    return b""
            if self._left == 0:
                return b""
            part = self._stream_now().read1(_LONGEST_LINE if self._left < 0 else min(self._left, _LONGEST_LINE))
            if self._left > 0:
                if not part:
                    raise ValueError("a body without end")
                self._left -= len(part)
                if self._chunked and self._left == 0 and self._header_line():
                    raise ValueError("a chunk that is longer than it said")
        except (OSError, ValueError) as fault:
            self.close()
            raise self.broken() from fault
        return part
