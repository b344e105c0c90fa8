"""Something happened: wakes every task that waits for it, and keeps nothing."""

from __future__ import annotations

import asyncio


class Wake:
    """A signal without memory. A waiter that looks at the state first and then waits, with no await between, misses
    nothing.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def fire(self) -> None:
        """Wake all who wait now."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Until the next ``fire``; ``False`` after ``timeout_s`` seconds without one."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(future)
        return True
