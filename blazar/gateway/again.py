"""A second attempt, where the first failed by an engine's fault and the client had nothing of it yet."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from blazar.errors import BadGateway, EngineCrashed, NoConnection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from blazar.gateway.errand import Errand

T = TypeVar("T")

_log = logging.getLogger("blazar.gateway")


async def once_more(errand: Errand, attempt: Callable[[], Awaitable[T]]) -> T:
    """An engine that died, hung up, or takes nobody any more, before the client had a byte costs the client nothing:
    the model is loaded again if need be, and asked again, once. What the first attempt acquired is given back before
    the second.
    """
    mark = errand.mark
    try:
        return await attempt()
    except (EngineCrashed, NoConnection, BadGateway) as failed:
        if errand.refusal is not None or (isinstance(failed, BadGateway) and not failed.cut):
            raise
        _log.warning("trace %s is asked again: %s", errand.trace, failed)
        errand.give_back_to(mark)
        return await attempt()
