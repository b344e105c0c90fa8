"""Kept responses: chains, bounds, and what a kill left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from blazar import store
from blazar.store import ResponseRow, Store


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Store]:
    with store.open(tmp_path / "blazar.db") as opened:
        yield opened


def row(number: int, previous: int = 0, body: str = "{}", status: str = "completed") -> ResponseRow:
    before = f"resp_{previous}" if previous else ""
    return ResponseRow(f"resp_{number}", number, before, "m", status, "[]", body)


def put(rows: Store, one: ResponseRow, *, most_bytes: int = 10**9, oldest_ns: int = 0) -> None:
    rows.responses.put(one, most_bytes=most_bytes, oldest_ns=oldest_ns)


def test_a_chain_is_told_from_its_beginning(rows: Store) -> None:
    for number in range(1, 6):
        put(rows, row(number, number - 1))
    assert [one.id for one in rows.responses.chain("resp_4")] == ["resp_1", "resp_2", "resp_3", "resp_4"]
    assert rows.responses.delete("resp_2")
    assert [one.id for one in rows.responses.chain("resp_4")] == ["resp_3", "resp_4"]
    assert rows.responses.chain("resp_9") == ()


def test_a_ring_ends(rows: Store) -> None:
    put(rows, row(1, 2))
    put(rows, row(2, 1))
    assert len(rows.responses.chain("resp_1")) == 2


def test_the_oldest_leave_when_there_are_too_many_bytes_or_days(rows: Store) -> None:
    for number in range(1, 201):
        put(rows, row(number, body="x" * 98), most_bytes=1000)
    kept = [number for number in range(1, 201) if rows.responses.get(f"resp_{number}")]
    assert kept == list(range(kept[0], 201))
    assert 10 <= len(kept) <= 10 + 64
    for number in range(201, 330):
        put(rows, row(number), oldest_ns=200)
    assert rows.responses.get("resp_199") is None
    assert rows.responses.get("resp_210") is not None


def test_what_was_running_is_said_to_have_failed(rows: Store) -> None:
    put(rows, row(1, body='{"status": "queued"}', status="queued"))
    put(rows, row(2, body='{"status": "completed"}'))
    assert rows.responses.abandoned('{"message": "stopped"}') == 1
    one = rows.responses.get("resp_1")
    assert one is not None
    assert json.loads(one.body) == {"status": "failed", "error": {"message": "stopped"}}
    assert rows.responses.abandoned("{}") == 0
