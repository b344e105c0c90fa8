"""Ask a child one small question over HTTP. Not for traffic: a connection for each question, whole answers only."""

from __future__ import annotations

import asyncio
import json

from blazar.engines.base import Address

_LARGEST = 4 * 1024 * 1024


async def get(address: Address, path: str, secret: str, timeout_s: float) -> tuple[int, bytes] | None:
    """Status and body of ``GET path``; ``None`` when nobody answers in time or what answers is no HTTP."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _ask(address, "GET", path, secret)
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None


async def post(
    address: Address, path: str, secret: str, body: dict[str, str], timeout_s: float
) -> tuple[int, bytes] | None:
    """The same for ``POST path`` with ``body`` as JSON."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _ask(address, "POST", path, secret, json.dumps(body).encode())
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None


async def listens(address: Address, timeout_s: float) -> bool:
    """Whether a connection is taken in time."""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await _connect(address)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.unix:
        return await asyncio.open_unix_connection(address.unix, limit=_LARGEST)
    return await asyncio.open_connection(address.host, address.port, limit=_LARGEST)


async def _ask(address: Address, method: str, path: str, secret: str, body: bytes = b"") -> tuple[int, bytes]:
    reader, writer = await _connect(address)
    try:
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ", 2)[1])
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        if "content-length" in headers:
            return status, await reader.readexactly(min(int(headers["content-length"]), _LARGEST))
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return status, await _chunks(reader)
        return status, await reader.read(_LARGEST)
    finally:
        writer.close()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while len(body) < _LARGEST:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        piece = await reader.readexactly(size + 2)
        if size == 0:
            break
        body += piece[:-2]
    return body
