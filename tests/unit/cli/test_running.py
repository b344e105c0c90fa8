from __future__ import annotations

import json

from tests.support.daemon import Daemon, running
from tests.unit.cli.conftest import Run


def test_without_a_daemon_it_is_said_how_to_start_one(blazar: Run) -> None:
    done = blazar("ps")
    assert done.returncode == 1
    assert done.stderr == "error: No Blazar daemon answers at http://127.0.0.1:1. Start one: blazar serve\n"


def test_the_table_tells_what_runs(blazar: Run, with_server: dict[str, str]) -> None:
    done = blazar("ps", **with_server)
    assert done.returncode == 0
    head, echo, slow = done.stdout.splitlines()
    assert head.split("  ")[0] == "NAME"
    assert echo.split() == ["echo", "ready", "llamacpp", "b1", "memory", "250", "MB", "4096", "1/4", "0", "now", "4242"]
    assert "forever" in slow
    # Columns stand under their names, numbers flush right.
    assert head.index("PID") + len("PID") == len(echo) == len(slow)
    assert "\x1b" not in done.stdout


def test_it_is_said_where_a_model_is(blazar: Run, with_server: dict[str, str], server: Daemon) -> None:
    wholly, partly, split = server.running = [running("wholly"), running("partly"), running("split")]
    wholly["blazar"] |= {"gpus": ["0"], "gpu_layers": -1}
    partly["blazar"] |= {"gpus": ["0"], "gpu_layers": 12}
    split["blazar"] |= {"gpus": ["0", "1"], "gpu_layers": -1}
    rows = blazar("ps", **with_server).stdout.splitlines()[1:]
    for row, place in zip(rows, ("  a GPU  ", "  a GPU (12 layers)  ", "  2 GPUs  "), strict=True):
        assert place in row


def test_rows_as_json_are_one_object_a_line(blazar: Run, with_server: dict[str, str], server: Daemon) -> None:
    rows = [json.loads(line) for line in blazar("ps", "--json", **with_server).stdout.splitlines()]
    assert [row["name"] for row in rows] == ["echo", "slow"]
    assert rows[0]["blazar"]["slots"] == 4
    server.running.clear()
    empty = blazar("ps", "--json", **with_server)
    assert (empty.returncode, empty.stdout) == (0, "")
    assert blazar("ps", **with_server).stderr == "No model is in memory.\n"


def test_a_model_is_stopped_and_a_wrong_name_told(blazar: Run, with_server: dict[str, str], server: Daemon) -> None:
    assert blazar("stop", "echo", **with_server).stderr == "echo is out of memory.\n"
    assert server.bodies == [("/api/generate", {"model": "echo", "keep_alive": 0, "stream": False})]
    wrong = blazar("stop", "nobody", **with_server)
    assert (wrong.returncode, wrong.stderr) == (1, "error: model 'nobody' not found.\n")


def test_no_daemon_to_stop_is_no_failure(blazar: Run) -> None:
    done = blazar("stop")
    assert (done.returncode, done.stderr) == (0, "No Blazar daemon runs.\n")


def test_the_daemon_of_another_home_is_left_alone(blazar: Run, with_server: dict[str, str]) -> None:
    done = blazar("stop", **with_server)
    assert done.returncode == 1
    assert "Stop it where it was started." in done.stderr


def test_another_program_on_the_port_is_told_apart(blazar: Run, server: Daemon, with_server: dict[str, str]) -> None:
    server.running = [{"no": "name"}]
    done = blazar("ps", **with_server)
    assert done.returncode == 1
    assert "is no Blazar daemon" in done.stderr


def test_how_far_a_load_is_and_why_one_waits(blazar: Run, with_server: dict[str, str], server: Daemon) -> None:
    server.running[0]["blazar"] |= {"state": "loading", "progress": 0.43, "eta_s": 12.4}
    server.running[1]["blazar"] |= {"state": "waiting", "reason": "waits for 5 bytes of memory"}
    _, echo, slow = blazar("ps", **with_server).stdout.splitlines()
    assert "loading (43%, 12s left)" in echo
    assert "waiting (waits for 5 bytes of memory)" in slow
    server.running[0]["blazar"] |= {"progress": None, "eta_s": None}
    assert "loading  " in blazar("ps", **with_server).stdout.splitlines()[1]
