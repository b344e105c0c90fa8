"""Plain questions to an engine, answered whole and passed on as they are."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from blazar import _native
from blazar.gateway.fault import error_of, explain, judge

if TYPE_CHECKING:
    from blazar.gateway.errand import Errand
    from blazar.node import Node
    from blazar.supervisor.instance import Instance

_LIMIT = 16 * 1024 * 1024


async def call(
    node: Node, errand: Errand, instance: Instance, method: str, path: str, body: bytes | None = None
) -> tuple[int, str, bytes]:
    """Status, content type and body of a plain request to an engine, which needs no place in its queue."""
    native = _native.Call(
        method, path, body, host=f"{instance.host}:{instance.port}", secret=instance.secret, limit=_LIMIT
    )
    delivery = await node.relay.open(instance, native, lambda: explain(node, instance))
    errand.delivery = delivery
    errand.finally_do(partial(node.relay.close, delivery))
    await delivery.whole()
    judge(node, instance, native.fault, complete=native.status == 200)
    if native.fault is not None:
        raise error_of(native.fault, instance)
    return native.status, native.content_type, native.body
