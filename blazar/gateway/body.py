"""Bodies that Python reads itself, with a bound whatever the headers said of their length."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, TypeVar

import msgspec

from blazar.errors import BadRequest, PayloadTooLarge
from blazar.gateway.decode import decoded

if TYPE_CHECKING:
    from falcon.asgi import Request

    from blazar.node import Node

Body = TypeVar("Body")
# Of zstd: what decoders must be able to take, and how much is decoded in one go.
_WINDOW, _PIECE = 8 * 1024 * 1024, 1024


class Named(msgspec.Struct):
    """A body that is about one model, by either word."""

    model: str = ""
    name: str = ""

    @property
    def wanted(self) -> str:
        """The model's name. Raises BadRequest without one."""
        if not (self.model or self.name):
            raise BadRequest("model is required", param="model")
        return self.model or self.name


async def whole(node: Node, req: Request) -> bytes:
    """All of it. Raises PayloadTooLarge."""
    bound = node.config.server.max_body_bytes
    body: bytes = await req.stream.read(bound + 1)
    if len(body) > bound:
        raise PayloadTooLarge(bound)
    coding = req.get_header("content-encoding")
    return body if coding is None or coding == "identity" else _plain(body, coding.strip().lower(), bound)


def _plain(body: bytes, coding: str, bound: int) -> bytes:
    """``body`` without its compression, as long as it stays within ``bound`` bytes."""
    if coding == "zstd":
        plain, whole = _unzstd(body, bound)
    elif coding in {"gzip", "deflate"}:
        plain, whole = _inflated(body, coding, bound)
    else:
        raise BadRequest(f"Bodies compressed with {coding[:20]} are not read here; send gzip or zstd, or none.")
    if len(plain) > bound:
        raise PayloadTooLarge(bound)
    if not whole:
        raise BadRequest(f"The body's {coding} is cut off.")
    return plain


def _inflated(body: bytes, coding: str, bound: int) -> tuple[bytes, bool]:
    """What is in ``body``, ``bound`` bytes and one more at most, and whether that is its end."""
    reader = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        return reader.decompress(body, bound + 1), reader.eof
    except zlib.error as error:
        raise BadRequest(f"The body is not {coding}: {error}.") from None


def _unzstd(body: bytes, bound: int) -> tuple[bytes, bool]:
    """The same for zstd, a little at a time: four bytes may hold 128 KiB."""
    import zstandard  # noqa: PLC0415  (few send it)

    reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    plain = bytearray()
    try:
        for at in range(0, len(body), _PIECE):
            plain += reader.decompress(body[at : at + _PIECE])
            if len(plain) > bound or reader.eof:
                break
    except zstandard.ZstdError as error:
        raise BadRequest(f"The body is not zstd: {error}.") from None
    return bytes(plain), reader.eof


def typed(body: bytes, kind: type[Body], path: str) -> Body:
    """``body`` as JSON of ``kind``; a field that is null is one left out. Raises BadRequest that names ``path``."""
    try:
        try:
            return decoded(body, kind)
        except msgspec.ValidationError:
            fields = decoded(body)
            if not isinstance(fields, dict) or None not in fields.values():
                raise
            return msgspec.convert({key: value for key, value in fields.items() if value is not None}, kind)
    except msgspec.DecodeError as error:
        raise BadRequest(f"The body is not what {path} takes: {error}.") from None
