"""Children and daemons that are killed."""

from __future__ import annotations

import json
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
from tests.support.server import Server, children_of, serving


@pytest.fixture
def own(tmp_path: Path, tiny_slow: Path) -> Iterator[Server]:
    """A server of this test's own, whose model is slow enough to be killed in the middle."""
    with serving(tmp_path / "home", {"tiny": tiny_slow}, BLAZAR_ENGINE_CONTEXT="8192") as running:
        yield running


MESSAGES = [{"role": "user", "content": "Tell me everything."}]
STREAMS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"max_tokens": 8000, "temperature": 0},
    "/v1/completions": {"max_tokens": 8000, "temperature": 0, "prompt": "Tell"},
    "/v1/responses": {"max_output_tokens": 8000, "temperature": 0, "input": "Tell me everything."},
    "/v1/messages": {"max_tokens": 8000, "temperature": 0},
    "/api/chat": {"options": {"num_predict": 8000, "temperature": 0}},
    "/api/generate": {"options": {"num_predict": 8000, "temperature": 0}, "prompt": "Tell"},
}


def engine_pid(server: Server) -> int:
    return int(server.ps()[0]["blazar"]["pid"])  # type: ignore[index]


@pytest.mark.parametrize("path", STREAMS)
def test_child_killed_in_a_stream(own: Server, path: str) -> None:
    body = {"model": "tiny", "stream": True, "messages": MESSAGES} | STREAMS[path]
    with httpx.stream("POST", own.url + path, json=body, timeout=120) as answer:
        assert answer.status_code == 200
        got = b""
        killed = False
        for piece in answer.iter_bytes():
            got += piece
            if not killed and len(got) > 2000:
                os.kill(engine_pid(own), signal.SIGKILL)
                killed = True
    assert killed
    last = got.decode().rstrip("\n").rpartition("\n")[2]
    event = json.loads(last.removeprefix("data: "))
    detail = event["response"]["error"] if path == "/v1/responses" else event["error"]
    code = event["blazar_code"] if isinstance(detail, str) else detail["blazar_code"]
    message = detail if isinstance(detail, str) else detail["message"]
    assert code == "ENGINE_CRASHED"
    assert "tiny" in message
    assert b"[DONE]" not in got
    short = {"stream": False, "max_tokens": 4, "max_output_tokens": 4, "options": {"num_predict": 4}}
    again = patient.post(own.url + path, json=body | short, timeout=60)
    assert again.status_code == 200, again.text


def ready(server: Server) -> list[int]:
    """The engines that answer now."""
    rows: list[Any] = list(server.ps())
    return [row["blazar"]["pid"] for row in rows if row["blazar"]["state"] == "ready"]


def kill_working(server: Server, times: int) -> threading.Thread:
    """Kill the engine while it works, so many times."""

    def kill() -> None:
        for _ in range(times):
            while not (pids := ready(server)):
                time.sleep(0.01)
            while server.busy_slots("tiny") == 0:
                time.sleep(0.01)
            os.kill(pids[0], signal.SIGKILL)
            while ready(server) == pids:
                time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    return killer


@pytest.mark.parametrize("times", [1, 2])
def test_child_killed_in_an_unstreamed_answer(own: Server, times: int) -> None:
    """Once costs the client nothing, since it had no byte yet; an engine that dies again is told."""
    patient.post(f"{own.url}/api/generate", json={"model": "tiny"}, timeout=60)
    killer = kill_working(own, times)
    # It does not end by itself before it is killed.
    endless = {"259": -100, "261": -100}
    body = {"model": "tiny", "messages": MESSAGES, "max_tokens": 1500, "temperature": 0, "logit_bias": endless}
    answer = patient.post(f"{own.url}/v1/chat/completions", json=body, timeout=60)
    killer.join()
    if times == 1:
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["finish_reason"] == "length"
        return
    assert answer.status_code == 502
    assert answer.json()["error"]["blazar_code"] == "ENGINE_CRASHED"


def test_those_who_wait_behind_a_child_that_dies_are_served_by_the_next(own: Server) -> None:
    patient.post(f"{own.url}/api/generate", json={"model": "tiny"}, timeout=60)
    body = {"model": "tiny", "messages": MESSAGES, "max_tokens": 5, "temperature": 0}
    with ThreadPoolExecutor(17) as pool:
        long = [pool.submit(patient.post, f"{own.url}/v1/messages", json={**body, "max_tokens": 900}, timeout=60)]
        while own.busy_slots("tiny") == 0:
            time.sleep(0.01)
        asks = [pool.submit(patient.post, f"{own.url}/v1/messages", json=body, timeout=60) for _ in range(16)]
        os.kill(engine_pid(own), signal.SIGKILL)
        assert {ask.result().status_code for ask in (*long, *asks)} == {200}


def gone(pids: set[int], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not any(
            Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split() for pid in pids
        ):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("who", ["main", "worker"])
def test_daemon_killed_leaves_no_child(own: Server, who: str) -> None:
    patient.post(f"{own.url}/api/generate", json={"model": "tiny"}, timeout=60)
    engine = engine_pid(own)
    assert own.process is not None
    everyone = children_of(own.process.pid)
    assert engine in everyone
    if who == "main":
        own.kill()
    else:
        worker = min(everyone - {engine})
        os.kill(worker, signal.SIGKILL)
        own.process.wait(10)
    assert gone(everyone, 2)
    own.start()
    answer = patient.post(
        f"{own.url}/v1/chat/completions", json={"model": "tiny", "messages": MESSAGES, "max_tokens": 4}, timeout=60
    )
    assert answer.status_code == 200


def test_terminated_daemon_ends_streams_with_a_word_and_leaves_nothing(own: Server) -> None:
    body = {"model": "tiny", "stream": True, "messages": MESSAGES, "max_tokens": 8000, "temperature": 0}
    with httpx.stream("POST", f"{own.url}/v1/chat/completions", json=body, timeout=120) as answer:
        got = b""
        asked = False
        for piece in answer.iter_bytes():
            got += piece
            if not asked and len(got) > 2000:
                assert own.process is not None
                everyone = children_of(own.process.pid)
                own.process.send_signal(signal.SIGTERM)
                asked = True
    assert own.process is not None
    assert b'"SHUTTING_DOWN"' in got
    assert own.process.wait(20) == 0
    assert gone(everyone, 0.5)
    assert f"answers at {own.url}" in own.log.read_text()


def test_a_taken_port_is_exit_three(own: Server) -> None:
    done = own.cli("serve", check=False)
    assert done.returncode == 3
    assert str(own.port) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_daemon_of_one_home_is_refused_and_harms_nothing(own: Server) -> None:
    done = own.cli("serve", "--port", "0", check=False)
    assert done.returncode == 1
    assert str(own.port) in done.stderr
    assert patient.get(f"{own.url}/health").status_code == 200
    assert own.cli("stop").stderr.startswith("Stopped the Blazar daemon"), "the record is still the first one's"
