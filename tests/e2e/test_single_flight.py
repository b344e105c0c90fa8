"""Equal whole answers that are wanted at once are made once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import patient
from tests.support.server import Server, scripted

SHARED = "x-blazar-single-flight"


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Server]:
    keys = {"BLAZAR_KEYS": "ann=ann-secret-0123456789,bob=bob-secret-0123456789"}
    with scripted(tmp_path, "tiny", **keys) as running:
        ask(running, "hello")
        yield running


def ask(server: Server, text: str, key: str = "ann", timeout_s: float = 60, **more: Any) -> httpx.Response:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}], "temperature": 0, **more}
    headers = {"authorization": f"Bearer {key}-secret-0123456789"}
    return patient.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=timeout_s)


def asked(server: Server, text: str) -> int:
    """How often the engine was."""
    (log,) = server.home.parent.rglob("asked.jsonl")
    return log.read_text().count(text)


def states(server: Server) -> list[str]:
    headers = {"authorization": "Bearer ann-secret-0123456789"}
    rows = patient.get(f"{server.url}/v1/requests?state=live", headers=headers).json()["data"]
    return sorted(row["state"] for row in rows)


def test_equal_ones_are_made_once_and_say_so(script: Server) -> None:
    with ThreadPoolExecutor(6) as pool:
        asks = [pool.submit(ask, script, "@spin 1") for _ in range(6)]
        while states(script) != ["prefill", *["sharing"] * 5]:
            time.sleep(0.02)
        answers = [one.result() for one in asks]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert asked(script, "@spin 1") == 1
    (leader,) = [answer.headers["x-blazar-trace-id"] for answer in answers if SHARED not in answer.headers]
    assert [answer.headers[SHARED] for answer in answers if SHARED in answer.headers] == [leader] * 5


@pytest.mark.parametrize(
    "different",
    [{"temperature": 0.5}, {"stream": True}, {"temperature": None}, {"key": "bob"}, {"max_tokens": 7}],
    ids=lambda different: next(iter(different)),
)
def test_what_differs_or_is_random_is_made_again(script: Server, different: dict[str, Any]) -> None:
    """Who asks twice for something that is drawn at random wants two."""
    random = "temperature" in different or "stream" in different
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, script, "@spin 1", **(different if random else {}))
        second = pool.submit(ask, script, "@spin 1", **different)
        assert not any(SHARED in answer.headers for answer in (first.result(), second.result()))
    assert asked(script, "@spin 1") == 2


def test_when_the_first_leaves_the_next_is_answered(script: Server) -> None:
    with ThreadPoolExecutor(3) as pool:

        def leave() -> None:
            with contextlib.suppress(httpx.ReadTimeout):
                ask(script, "@spin 2", timeout_s=0.5)

        leaving = pool.submit(leave)
        while states(script) != ["prefill"]:
            time.sleep(0.02)
        others = [pool.submit(ask, script, "@spin 2") for _ in range(2)]
        leaving.result()
        answers = [other.result() for other in others]
    assert {answer.status_code for answer in answers} == {200}
    assert sum(SHARED in answer.headers for answer in answers) == 1
    assert asked(script, "@spin 2") == 2


def test_tokens_are_the_keys_once(script: Server) -> None:
    before = used(script)
    with ThreadPoolExecutor(3) as pool:
        answers = [one.result() for one in [pool.submit(ask, script, "@spin 1") for _ in range(3)]]
    assert used(script) - before == answers[0].json()["usage"]["total_tokens"]


def used(server: Server) -> int:
    rows = patient.get(f"{server.url}/api/keys", headers={"authorization": "Bearer ann-secret-0123456789"}).json()
    (row,) = [row for row in rows["keys"] if row["name"] == "ann"]
    return int(row["today"]["prompt_tokens"] + row["today"]["completion_tokens"])
