"""Bodies that Python reads itself, with a bound whatever the headers said of their length."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from blazar.errors import BadRequest, PayloadTooLarge

if TYPE_CHECKING:
    from falcon.asgi import Request

    from blazar.node import Node

Body = TypeVar("Body")


async def whole(node: Node, req: Request) -> bytes:
    """All of it. Raises PayloadTooLarge."""
    bound = node.config.server.max_body_bytes
    body: bytes = await req.stream.read(bound + 1)
    if len(body) > bound:
        raise PayloadTooLarge(bound)
    return body


def typed(body: bytes, kind: type[Body], path: str) -> Body:
    """``body`` as JSON of ``kind``. Raises BadRequest that names ``path``."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"The body is not what {path} takes: {error}.") from None
