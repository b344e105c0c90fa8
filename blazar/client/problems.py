"""From the daemon's errors back to ours: the same class, the same sentence."""

from __future__ import annotations

import msgspec

from blazar.client.transport import Exchange
from blazar.client.types import Problem
from blazar.errors import BadGateway, BlazarError, catalogue


def problem(exchange: Exchange, status: int) -> BlazarError:
    """The error that the body of a refused request tells."""
    try:
        told = msgspec.json.decode(exchange.read(), type=Problem)
    except msgspec.DecodeError:
        told = Problem()
    if not told.error:
        url = exchange.address.url
        return BadGateway(f"What answers at {url} is no Blazar daemon: it said {status} to a request.")
    return rebuilt(told.blazar_code, told.error, exchange.headers.get("retry-after"))


def rebuilt(code: str, sentence: str, retry_after: str | None = None) -> BlazarError:
    """The error of ``code`` with the sentence that the daemon built; of no class of its own if the code is unknown."""
    kind = catalogue().get(code, BlazarError)
    error = kind.__new__(kind)
    seconds = float(retry_after) if retry_after and retry_after.isdecimal() else None
    BlazarError.__init__(error, sentence, retry_after=seconds)
    return error
