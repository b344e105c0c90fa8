"""Images that a request only names: brought here where the owner allows it, since engines are never sent anywhere."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import ipaddress
import socket
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import msgspec

from blazar import _native
from blazar.errors import BadRequest
from blazar.gateway.decode import decoded

if TYPE_CHECKING:
    from blazar.node import Node

_MOST = 20 * 1024 * 1024
_WAIT_S = 10.0
_REDIRECTS = 3
_MOVED = frozenset({301, 302, 303, 307, 308})


async def bring(node: Node, inbound: _native.Inbound, body: bytes) -> None:
    """Put the images in the places of their links. Raises BadRequest with the path of the link in ``body``."""
    links = inbound.links
    if not links:
        return
    mode = node.config.server.remote_images
    if mode == "off":
        raise BadRequest(
            "Images are not fetched from other servers. Send the image itself, in base64, or set server.remote_images.",
            param=_place(body, links[0]),
        )
    images = []
    for link in links:
        try:
            data = await asyncio.to_thread(_fetch, link, public=mode == "public")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise BadRequest(f"The image cannot be fetched: {error}.", param=_place(body, link)) from None
        images.append(base64.b64encode(data).decode())
    try:
        inbound.supply(images)
    except _native.BadInput as bad:
        raise BadRequest(f"What a link leads to is no image: {bad.args[0]}", param=_place(body, links[0])) from None


def _fetch(url: str, *, public: bool) -> bytes:
    """What lies there, of at most 20 MiB. Raises OSError, HTTPException, ValueError."""
    for _ in range(_REDIRECTS + 1):
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("the link leads to something that is no web address")
        with contextlib.closing(_connect(parts.hostname, parts.port, parts.scheme == "https", public=public)) as http_:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            http_.request("GET", path, headers={"accept": "image/*"})
            answer = http_.getresponse()
            if answer.status in _MOVED and (target := answer.headers.get("location")):
                url = urljoin(url, target)
                continue
            if answer.status != 200:
                raise ValueError(f"its server answered with status {answer.status}")
            data = answer.read(_MOST + 1)
            if len(data) > _MOST:
                raise ValueError(f"it has more than {_MOST} bytes")
            return data
    raise ValueError(f"it moved more than {_REDIRECTS} times")


def _connect(host: str, port: int | None, secure: bool, *, public: bool) -> http.client.HTTPConnection:
    """A connection to the address that was looked at, so that no second answer of a name server leads elsewhere."""
    port = port or (443 if secure else 80)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for _, _, _, _, address in found:
        if public and not ipaddress.ip_address(address[0]).is_global:
            raise ValueError(f"'{host}' is no public address, and server.remote_images is public")
    raw = socket.create_connection((str(found[0][4][0]), port), timeout=_WAIT_S)
    connection = http.client.HTTPConnection(host, port, timeout=_WAIT_S)
    try:
        connection.sock = ssl.create_default_context().wrap_socket(raw, server_hostname=host) if secure else raw
    except BaseException:
        raw.close()
        raise
    return connection


def _place(body: bytes, link: str) -> str | None:
    """The JSON path of ``link`` in ``body``."""
    try:
        return next(_paths(decoded(body), link, ""), None)
    except msgspec.DecodeError:
        return None


def _paths(value: Any, link: str, path: str) -> Any:
    if value == link:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, link, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _paths(inner, link, f"{path}[{place}]")
