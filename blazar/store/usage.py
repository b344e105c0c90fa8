"""What each API key used on each day of UTC."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from blazar.store.connection import Connection

_KEPT_DAYS = 400


class UsageRow(msgspec.Struct, frozen=True):
    """Of one key on one day (days since 1970): requests, and tokens of prompts and of answers."""

    name: str
    day: int
    requests: int
    prompt: int
    completion: int


class UsageRows:
    """The table ``key_usage``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, rows: Iterable[UsageRow]) -> None:
        """Count these on top of what is there. What is more than a year old leaves."""
        with self._connection.write() as db:
            for row in rows:
                db.execute(
                    "INSERT INTO key_usage (name, day, requests, prompt, completion) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT (name, day) DO UPDATE SET requests = requests + excluded.requests, "
                    "prompt = prompt + excluded.prompt, completion = completion + excluded.completion",
                    (row.name, row.day, row.requests, row.prompt, row.completion),
                )
                db.execute("DELETE FROM key_usage WHERE name = ? AND day < ?", (row.name, row.day - _KEPT_DAYS))

    def on(self, day: int) -> dict[str, UsageRow]:
        """What each key used on that day."""
        rows = self._connection.read(
            "SELECT name, day, requests, prompt, completion FROM key_usage WHERE day = ?", (day,)
        )
        return {row[0]: UsageRow(*row) for row in rows}
