"""Responses that are kept: written when they are complete, read to go on from."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any

import msgspec

from blazar.errors import NotFound
from blazar.gateway.due import mine
from blazar.store import ResponseRow

if TYPE_CHECKING:
    from blazar import _native
    from blazar.gateway.errand import Errand
    from blazar.node import Node

_DAY_NS = 86_400_000_000_000


class _Body(msgspec.Struct):
    id: str
    model: str
    status: str
    output: msgspec.Raw = msgspec.Raw(b"[]")


def keep(node: Node, inbound: _native.Inbound, body: bytes, *, owner: str) -> None:
    """Keep the object ``body``, the answer to ``inbound``, for the key ``owner``."""
    facts = msgspec.json.decode(body, type=_Body)
    now = time_ns()
    settings = node.config.responses
    row = ResponseRow(
        id=facts.id,
        created_ns=now,
        previous=inbound.previous or "",
        model=facts.model,
        status=facts.status,
        input=inbound.items,
        body=body.decode(),
        owner=owner,
    )
    node.store.responses.put(row, most_bytes=settings.keep_bytes, oldest_ns=now - int(settings.keep_days * _DAY_NS))


def find(node: Node, id: str, errand: Errand) -> ResponseRow:  # noqa: A002  (it is one)
    """The response of this id. Raises NotFound, also where it is another key's."""
    row = node.store.responses.get(id)
    if row is None or not mine(errand, row.owner):
        raise NotFound(f"response '{id[:80]}'", param=None)
    return row


def conversation(node: Node, id: str, errand: Errand) -> bytes:  # noqa: A002
    """Everything that was said up to and with the response ``id``, as a JSON array of items.

    Raises NotFound when it is not there, or when something that it goes on from is not there any more.
    """
    chain = node.store.responses.chain(id)
    if not chain or not all(mine(errand, row.owner) for row in chain):
        raise NotFound(f"previous response '{id[:80]}'", param="previous_response_id")
    if chain[0].previous:
        raise NotFound(
            f"response '{chain[0].previous[:80]}', which '{id[:80]}' goes on from,", param="previous_response_id"
        )
    parts = []
    for row in chain:
        parts.append(row.input.encode())
        parts.append(bytes(msgspec.json.decode(row.body, type=_Body).output))
    inside = [part.strip()[1:-1] for part in parts]
    return b"[" + b",".join(part for part in inside if part.strip()) + b"]"


def items(node: Node, id: str, errand: Errand) -> list[dict[str, Any]]:  # noqa: A002
    """The input of a response, oldest first, each item with an id."""
    row = find(node, id, errand)
    found: list[dict[str, Any]] = msgspec.json.decode(row.input, type=list[dict[str, Any]])
    stem = id.removeprefix("resp_")
    return [{"type": "message", "id": f"item_{stem}{place:04x}"} | item for place, item in enumerate(found)]
