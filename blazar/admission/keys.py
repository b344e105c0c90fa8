"""The API keys that hold now: who somebody is, what he may use, what he has used.

The config file is the one place where keys are kept; it is read again when it changes, so that a key that was taken out
of it is worth nothing a moment later. What a key used in a day is counted in the store, a second late at most.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from blazar import _native
from blazar.config import keys as keyring
from blazar.config import load
from blazar.errors import ConfigError, RateLimited
from blazar.store import UsageRow

if TYPE_CHECKING:
    from pathlib import Path

    from blazar.clock import Clock
    from blazar.config.schema import KeyEntry
    from blazar.store import UsageRows

_log = logging.getLogger("blazar.admission")
_LOOK_NS = 50_000_000
_FLUSH_S = 1.0
_DAY_S = 86_400
_OWNER = "(owner)"


class Key:
    """One key. ``number`` stands for it in queues; ``models`` are patterns, and none of them means all."""

    __slots__ = ("_budget", "_clock", "_counted", "admin", "digest", "entry", "limited", "models", "name", "number")

    def __init__(
        self, entry: KeyEntry, number: int, clock: Clock, used_today: int, counted: Callable[[str, int, int, int], None]
    ) -> None:
        self.number = number
        self._clock = clock
        self._counted = counted
        self._budget = _native.Budget(0, 0, 0, 0, clock.time_ns() // 1_000_000_000 // _DAY_S, used_today)
        self.read(entry)

    def read(self, entry: KeyEntry) -> None:
        """What the config says of it now; what it has used stays."""
        self.entry = entry
        self.name = entry.name
        self.digest = keyring.kept(entry)
        self.models = tuple(pattern.lower() for pattern in entry.models)
        self.admin = not self.models
        limits = (entry.rpm, entry.tpm, entry.daily_tokens, entry.max_concurrent)
        self.limited = any(limits)
        self._budget.limit(*limits)

    def may(self, model: str) -> bool:
        """Whether it may use the model of that name."""
        name = model.lower()
        return self.admin or any(
            fnmatchcase(name, pattern) or name == f"{pattern}:latest" or f"{name}:latest" == pattern
            for pattern in self.models
        )

    def take(self, tokens: int) -> None:
        """A request comes that may cost so many tokens. Raises RateLimited, and then nothing is charged."""
        refused = self._budget.take(self._clock.monotonic_ns(), self._clock.time_ns() // 1_000_000_000, tokens)
        if refused is not None:
            bound, wait_ns = refused
            raise RateLimited(self.name, bound, getattr(self.entry, bound), None if wait_ns is None else wait_ns / 1e9)

    def settle(self, reserved: int, prompt: int, completion: int) -> None:
        """A request that was taken is over, and came to these tokens."""
        civil_s = self._clock.time_ns() // 1_000_000_000
        self._budget.settle(self._clock.monotonic_ns(), civil_s, reserved, prompt + completion)
        self._counted(self.name, civil_s // _DAY_S, prompt, completion)

    def left(self) -> tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]:
        """Requests and tokens a minute: the bound, what is left, the ns until all is there again; None: no bound."""
        return self._budget.left(self._clock.monotonic_ns())

    @property
    def running(self) -> int:
        """Its requests that are not over."""
        return self._budget.running

    @property
    def used_today(self) -> int:
        """Tokens."""
        return self._budget.used_today(self._clock.time_ns() // 1_000_000_000)


class Keys:
    """All of them."""

    def __init__(
        self, file: Path, entries: Sequence[KeyEntry], usage: UsageRows, clock: Clock, owner: str = ""
    ) -> None:
        """``owner`` is the secret of whoever may read this machine's files; empty: there is none."""
        self._file = file
        self._usage = usage
        self._clock = clock
        self._fixed = keyring.from_environment(os.environ)
        self._pending: dict[tuple[str, int], list[int]] = {}
        self._numbers: dict[str, int] = {}
        self._by_digest: dict[str, Key] = {}
        self._stamp = self._seen()
        self._looked_ns = clock.monotonic_ns()
        self._flushing: asyncio.Task[None] | None = None
        self._owner = self._owners_key(owner) if owner else None
        self._take(entries)

    @property
    def on(self) -> bool:
        """Whether a request needs one."""
        self._look()
        return bool(self._by_digest)

    def find(self, secret: str) -> Key | None:
        """Whose secret it is."""
        if self.is_owner(secret):
            return self._owner
        digest = keyring.digest(secret)
        # The hash of what a stranger sends says nothing of how near it came; the last word is constant in time.
        found = self._by_digest.get(digest)
        return found if found is not None and hmac.compare_digest(found.digest, digest) else None

    def is_owner(self, secret: str) -> bool:
        """It is the secret of whoever may read this machine's files."""
        return self._owner is not None and hmac.compare_digest(keyring.digest(secret), self._owner.digest)

    def named(self, name: str) -> Key | None:
        """The key of that name."""
        return next((key for key in self.all() if key.name == name), None)

    def all(self) -> tuple[Key, ...]:
        """Every key, as they stand in the config."""
        self._look()
        return tuple(self._by_digest.values())

    def is_fixed(self, key: Key) -> bool:
        """It comes from the environment and cannot be changed here."""
        return any(entry.name == key.name for entry in self._fixed)

    def changed(self) -> None:
        """The file was changed by us: read it now."""
        self._looked_ns = 0
        self._look()

    async def today(self) -> dict[str, UsageRow]:
        """What each used today."""
        await self._flush()
        return await asyncio.to_thread(self._usage.on, self._clock.time_ns() // 1_000_000_000 // _DAY_S)

    def start(self) -> None:
        """Write down now and then what is used."""
        self._flushing = asyncio.ensure_future(self._flush_on())

    def stop(self) -> None:
        """Write down what is left."""
        if self._flushing is not None:
            self._flushing.cancel()
        self._usage.add(self._taken())

    def _taken(self) -> list[UsageRow]:
        """What was used since the last time. Counts belong to the loop; only rows go to a thread."""
        pending, self._pending = self._pending, {}
        return [UsageRow(name, day, *counts) for (name, day), counts in pending.items()]

    async def _flush(self) -> None:
        """Write down what was used since the last time; what the disk refuses is kept for the next."""
        rows = self._taken()
        if not rows:
            return
        try:
            await asyncio.to_thread(self._usage.add, rows)
        except Exception:
            for row in rows:
                self._add(row.name, row.day, row.requests, row.prompt, row.completion)
            raise

    async def _flush_on(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            try:
                await self._flush()
            except Exception:  # noqa: BLE001  (the disk may be full for a while; requests go on)
                _log.exception("what keys used could not be written down")

    def _count(self, name: str, day: int, prompt: int, completion: int) -> None:
        self._add(name, day, 1, prompt, completion)

    def _add(self, name: str, day: int, requests: int, prompt: int, completion: int) -> None:
        counts = self._pending.setdefault((name, day), [0, 0, 0])
        counts[0] += requests
        counts[1] += prompt
        counts[2] += completion

    def _look(self) -> None:
        now = self._clock.monotonic_ns()
        if self._looked_ns and now - self._looked_ns < _LOOK_NS:
            return
        self._looked_ns = now
        stamp = self._seen()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            tables = load.read(self._file).get("keys", [])
            entries = (*load.entries(tables), *self._fixed)
            keyring.check(entries, f"{self._file}")
        except ConfigError as fault:
            _log.warning("the keys stay as they were: %s", fault)
            return
        self._take(entries)

    def _seen(self) -> tuple[int, int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _take(self, entries: Sequence[KeyEntry]) -> None:
        """These hold from now on. Keys that stay keep what they have used."""
        known = {key.name: key for key in self._by_digest.values()}
        today = self._usage.on(self._clock.time_ns() // 1_000_000_000 // _DAY_S) if entries else {}
        found: dict[str, Key] = {}
        for entry in entries:
            key = known.get(entry.name)
            if key is None:
                used = today.get(entry.name)
                number = self._numbers.setdefault(entry.name, len(self._numbers) + 1)
                key = Key(entry, number, self._clock, used.prompt + used.completion if used else 0, self._count)
            else:
                key.read(entry)
            found[key.digest] = key
        self._by_digest = found

    def _owners_key(self, secret: str) -> Key:
        entry = keyring.owners(_OWNER, secret)
        return Key(entry, 0, self._clock, 0, lambda *_: None)


def sees(key: Key | None, owner: str) -> bool:
    """Whether what ``owner`` (a key's name, or nothing) brought is there for ``key``; without keys, all is."""
    return key is None or key.admin or key.name == owner
