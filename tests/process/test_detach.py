"""The daemon, started from outside and seen from outside."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from blazar.config.paths import Paths
from blazar.errors import DaemonFailed, PortTaken
from blazar.supervisor import detach
from tests.support.server import free_port

ROOT = Path(__file__).parents[2]
SERVE = """
import http.server, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from blazar.config.paths import Paths
from blazar.supervisor import detach
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
home = Path(sys.argv[1])
detach.record(Paths(config=home / "config", data=home / "data"), "127.0.0.1", int(sys.argv[2]))
server.serve_forever()
"""


@pytest.fixture
def paths(home: Path) -> Paths:
    return Paths(config=home / "config", data=home / "data")


def serve(home: Path, port: int) -> list[str]:
    return [sys.executable, "-c", SERVE, str(home), str(port), str(ROOT)]


def reap(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_daemon_is_started_once_in_a_session_of_its_own(home: Path, paths: Paths) -> None:
    port = free_port()
    started: list[tuple[int, bool]] = []

    def start() -> None:
        started.append(detach.start(paths, "127.0.0.1", port, command=serve(home, port)))

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pid = started[0][0]
    try:
        assert {one[0] for one in started} == {pid}
        assert sorted(one[1] for one in started) == [False, False, True]
        assert os.getsid(pid) == pid
        info = detach.running(paths)
        assert info is not None
        assert (info.pid, info.port) == (pid, port)
    finally:
        reap(pid)
    # The record is still there; the process is not.
    assert (paths.run / "daemon.json").exists()
    assert detach.running(paths) is None


def test_a_daemon_that_dies_shows_its_last_words(paths: Paths) -> None:
    command = [sys.executable, "-c", "print('the config is wrong'); raise SystemExit(1)"]
    with pytest.raises(DaemonFailed, match=r"ended with code 1.*the config is wrong"):
        detach.start(paths, "127.0.0.1", free_port(), command=command)


def test_a_daemon_that_never_answers_is_given_up(paths: Paths) -> None:
    command = [sys.executable, "-c", "import time; print('busy', flush=True); time.sleep(600)"]
    before = time.monotonic()
    with pytest.raises(DaemonFailed, match="did not answer"):
        detach.start(paths, "127.0.0.1", free_port(), command=command, wait_s=1)
    assert time.monotonic() - before < 5


def test_a_taken_port_is_said_before_anything_is_started(paths: Paths, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)):
            detach.start(paths, "127.0.0.1", port, command=["/bin/touch", str(trace)])
    assert not trace.exists()


def test_a_record_of_an_earlier_process_with_the_same_number_does_not_count(paths: Paths) -> None:
    detach.record(paths, "127.0.0.1", 1)
    assert detach.running(paths) is not None
    file = paths.run / "daemon.json"
    info = detach.running(paths)
    assert info is not None
    file.write_text(file.read_text().replace(f'"start":{info.start}', f'"start":{info.start - 1}'))
    assert detach.running(paths) is None
    detach.forget(paths)
    assert not file.exists()


def test_the_record_of_another_is_not_taken_away(home: Path, paths: Paths) -> None:
    port = free_port()
    other = subprocess.Popen(serve(home, port))
    try:
        deadline = time.monotonic() + 10
        while detach.running(paths) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        detach.forget(paths)
        assert detach.running(paths) is not None
    finally:
        other.kill()
        other.wait()
