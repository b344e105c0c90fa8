"""Engines that live on and serve no more: told to end by a stranger, stopped, silent, failing, growing. And one that is
only busy.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import patient
from tests.support.server import Server, scripted, serving

MESSAGES = [{"role": "user", "content": "Tell me everything."}]
BODY: dict[str, Any] = {"model": "tiny", "messages": MESSAGES, "max_tokens": 5, "temperature": 0}
# It does not end by itself before it is stopped.
ENDLESS = BODY | {"logit_bias": {"259": -100, "261": -100}}


@pytest.fixture
def own(tmp_path: Path, tiny_slow: Path) -> Iterator[Server]:
    """A server of this test's own, whose model is slow enough to be stopped in the middle."""
    bounds = {"BLAZAR_HEALTH_SILENT_S": "2", "BLAZAR_HEALTH_FINISH_S": "3"}
    with serving(tmp_path / "home", {"tiny": tiny_slow}, BLAZAR_ENGINE_CONTEXT="8192", **bounds) as running:
        patient.post(f"{running.url}/api/generate", json={"model": "tiny"}, timeout=60)
        yield running


def ask(server: Server, body: dict[str, Any], timeout_s: float = 60) -> httpx.Response:
    return patient.post(f"{server.url}/v1/chat/completions", json=body, timeout=timeout_s)


def pid(server: Server) -> int:
    return int(server.ps()[0]["blazar"]["pid"])  # type: ignore[index]


def test_a_child_that_takes_nobody_any_more_is_replaced(own: Server) -> None:
    """A stranger's SIGTERM closes the door at once, and the engine waits for those who are inside."""
    first = pid(own)
    with ThreadPoolExecutor(6) as pool:
        # Two kept connections, and one that is in use.
        assert {answer.status_code for answer in pool.map(lambda _: ask(own, BODY), range(3))} == {200}
        long = pool.submit(ask, own, ENDLESS | {"stream": True, "max_tokens": 7000})
        whole = pool.submit(ask, own, ENDLESS | {"max_tokens": 1000})
        while own.busy_slots("tiny") < 2:
            time.sleep(0.01)
        os.kill(first, signal.SIGTERM)
        asks = [pool.submit(ask, own, BODY) for _ in range(3)]
        assert {answer.result().status_code for answer in (whole, *asks)} == {200}
        # What had its first bytes cannot be asked again: it is whole, or its end is told.
        assert long.result().text.endswith("data: [DONE]\n\n") or '"blazar_code"' in long.result().text
    assert pid(own) != first


def test_a_child_that_is_stopped_is_replaced_and_asked_again(own: Server) -> None:
    first = pid(own)
    with ThreadPoolExecutor(3) as pool:
        # Not equal, so that each has an answer of its own.
        asks = [pool.submit(ask, own, ENDLESS | {"max_tokens": most}) for most in (600, 601)]
        stream = pool.submit(ask, own, ENDLESS | {"max_tokens": 600, "stream": True})
        while own.busy_slots("tiny") < 3:
            time.sleep(0.01)
        os.kill(first, signal.SIGSTOP)
        assert {answer.result().status_code for answer in asks} == {200}
        assert "ENGINE_CRASHED" in stream.result().text
        assert "does not answer" in stream.result().text
    assert pid(own) != first


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Server]:
    """A server whose engine does what the conversation says."""
    bounds = {"HEALTH_SILENT_S": "2", "HEALTH_FINISH_S": "3", "HEALTH_GROWTH_BYTES": "200000000"}
    bounds |= {"ENGINE_CONTEXT": "512", "ENGINE_SLOTS": "2"}
    with scripted(tmp_path, "tiny", **{f"BLAZAR_{name}": value for name, value in bounds.items()}) as running:
        yield running


def say(server: Server, text: str) -> httpx.Response:
    return ask(server, BODY | {"messages": [{"role": "user", "content": text}]})


def test_one_that_works_and_answers_nobody_meanwhile_is_only_busy(script: Server) -> None:
    say(script, "hello")
    first = pid(script)
    assert say(script, "@spin 25").status_code == 200
    assert pid(script) == first


def test_one_that_hangs_is_replaced_though_it_takes_connections(script: Server) -> None:
    say(script, "hello")
    first = pid(script)
    with ThreadPoolExecutor(2) as pool:
        hangs = pool.submit(say, script, "@hang")
        time.sleep(0.3)
        other = pool.submit(say, script, "hello")
        assert other.result().status_code == 200
        # The second engine was hung by it as well; that is told, and not tried a third time.
        assert hangs.result().json()["error"]["blazar_code"] == "ENGINE_CRASHED"
    assert first not in {row["blazar"]["pid"] for row in script.ps()}  # type: ignore[index]


def test_one_that_only_fails_is_replaced_once_and_then_left_alone(script: Server) -> None:
    say(script, "hello")
    first = pid(script)
    for kind in ("@fail", "@garbage", "@fail", "@fail"):
        assert say(script, kind).status_code == 502
    assert say(script, "hello").status_code == 200
    for _ in range(5):
        assert pid(script) == first, "a good answer in between is a new beginning"
        assert say(script, "@fail").status_code == 502
    assert say(script, "@fail").status_code == 502
    second = pid(script)
    assert second != first
    for _ in range(7):
        assert say(script, "@fail").status_code == 502
    assert pid(script) == second, "it is not the process that is at fault"


def test_one_that_grows_is_replaced_when_nobody_uses_it(script: Server) -> None:
    say(script, "hello")
    first = pid(script)
    assert say(script, "@grow 150").status_code == 200
    time.sleep(6)
    assert pid(script) == first
    assert say(script, "@grow 150").status_code == 200
    deadline = time.monotonic() + 12
    while script.ps():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "has grown by" in script.log.read_text()
    assert say(script, "hello").status_code == 200
    assert pid(script) != first


def test_a_stream_of_those_who_leave_early_does_not_hide_a_silence(own: Server) -> None:
    """Every client gives up before the bound; the engine is found out nevertheless."""
    first = pid(own)
    os.kill(first, signal.SIGSTOP)
    over = threading.Event()

    def impatient() -> None:
        while not over.is_set():
            try:
                ask(own, BODY, 1.5)
            except httpx.TimeoutException:
                continue

    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(impatient)
        deadline = time.monotonic() + 40
        while any(row["blazar"]["pid"] == first for row in own.ps()):  # type: ignore[index]
            assert time.monotonic() < deadline
            time.sleep(0.2)
        over.set()
    assert ask(own, BODY).status_code == 200
