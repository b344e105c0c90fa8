"""A streamed answer, line by line."""

from __future__ import annotations

from types import TracebackType

import msgspec

from blazar.client.problems import rebuilt
from blazar.client.transport import Exchange
from blazar.client.types import Part

_decoder = msgspec.json.Decoder(Part)


class Stream:
    """The parts of one answer as they come. Leaving the ``with`` block early stops the model."""

    __slots__ = ("_exchange", "_open")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._open = True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Part:
        """The next part. Raises what the daemon says went wrong, or ``BadGateway`` if there is no end."""
        if not self._open:
            raise StopIteration
        line = self._exchange.line()
        while line and not line.strip():
            line = self._exchange.line()
        if not line:
            self.close()
            raise self._exchange.broken()
        try:
            part = _decoder.decode(line)
        except msgspec.DecodeError as fault:
            self.close()
            raise self._exchange.broken() from fault
        if part.error is not None:
            self.close()
            raise rebuilt(part.blazar_code, part.error)
        if part.done:
            self.close()
        return part

    def close(self) -> None:
        """Stop reading; the daemon frees the slot."""
        self._open = False
        self._exchange.close()
