"""Long work, told step by step: in a thread of its own, a line for each step, ended when its client leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from blazar.errors import BlazarError, Conflict, Internal, ShuttingDown
from blazar.models.progress import Listener, Progress

if TYPE_CHECKING:
    from blazar.node import Node

T = TypeVar("T")
NDJSON = "application/x-ndjson"
_log = logging.getLogger("blazar.gateway")


class Work(Generic[T]):
    """One run of ``job``, which is given whom to tell of its steps."""

    def __init__(self, node: Node, job: Callable[[Listener], T], trace: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._steps: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._stopped: BlazarError | None = None
        self._trace = trace
        self._leaving = node.leaving
        self._leaving.add(self.leave)
        self._task = asyncio.ensure_future(asyncio.to_thread(job, self._tell))
        self._task.add_done_callback(self._ended)

    async def result(self) -> T:
        """What came of it. Raises what the job raises."""
        return await asyncio.shield(self._task)

    async def lines(
        self,
        first: str,
        step: Callable[[Progress], Mapping[str, object] | None],
        last: Callable[[T], Mapping[str, object]],
    ) -> AsyncIterator[bytes]:
        """A line that says ``first``, one for each step that is worth it, and ``last`` or an error."""
        yield line({"status": first})
        while (progress := await self._steps.get()) is not None:
            if (told := step(progress)) is not None:
                yield line(told)
        try:
            if isinstance(self._stopped, ShuttingDown):
                raise self._stopped
            result = await self._task
        except BlazarError as error:
            yield line({"error": error.message, "blazar_code": error.code})
        except Exception:  # noqa: BLE001  (the head is out: the client gets a line, the log the rest)
            _log.exception("a long work failed")
            fault = Internal(self._trace)
            yield line({"error": fault.message, "blazar_code": fault.code})
        else:
            yield line(last(result))

    def stop(self) -> None:
        """Nobody waits for it any more: it ends at its next step."""
        self._stopped = self._stopped or Conflict("The client of this work left.")

    def leave(self) -> None:
        """The daemon stops: whoever waits hears of it at once."""
        self._stopped = ShuttingDown()
        self._steps.put_nowait(None)

    def _tell(self, step: Progress) -> None:
        """In the job's thread. An exception out of it stops the job."""
        if self._stopped is not None:
            raise self._stopped
        self._loop.call_soon_threadsafe(self._steps.put_nowait, step)

    def _ended(self, task: asyncio.Future[T]) -> None:
        self._leaving.discard(self.leave)
        self._steps.put_nowait(None)
        if not task.cancelled():
            task.exception()  # whoever waits gets it; when nobody does, there is nobody to tell


def line(value: Mapping[str, object]) -> bytes:
    """As NDJSON has it."""
    return msgspec.json.encode(value) + b"\n"
