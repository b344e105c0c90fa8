from __future__ import annotations

import os
import signal
import subprocess
import time

from tests.support.daemon import Daemon
from tests.unit.cli.conftest import BLAZAR, Run


def test_one_answer_goes_to_standard_output_and_nothing_else_does(blazar: Run, with_server: dict[str, str]) -> None:
    done = blazar("run", "echo", "Grüße,", "世界", **with_server)
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said: Grüße, 世界\n", "")


def test_what_is_piped_in_follows_the_prompt(blazar: Run, with_server: dict[str, str], server: Daemon) -> None:
    assert blazar("run", "echo", "sum up:", stdin="a\nb\n", **with_server).stdout == "You said: sum up:\n\na\nb\n"
    assert blazar("run", "echo", stdin="only this", **with_server).stdout == "You said: only this\n"
    assert [body["messages"][0]["content"] for _, body in server.bodies] == ["sum up:\n\na\nb", "only this"]


def test_an_open_pipe_that_says_nothing_does_not_hang_a_complete_prompt(
    env: dict[str, str], with_server: dict[str, str]
) -> None:
    with subprocess.Popen(
        [BLAZAR, "run", "echo", "hi"],
        env=env | with_server,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.wait(30) == 0
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read() == "You said: hi\n"
        assert "Nothing came on standard input for 3 s; going on without it" in child.stderr.read()


def test_an_empty_prompt_is_refused(blazar: Run, with_server: dict[str, str], server: Daemon) -> None:
    done = blazar("run", "echo", **with_server)
    assert (done.returncode, done.stderr) == (1, "error: The prompt is empty.\n")
    assert server.bodies == []


def test_options_reach_the_daemon(blazar: Run, with_server: dict[str, str], server: Daemon) -> None:
    arguments = ["--system", "be brief", "--set", "temperature=0.5", "--set", "num_predict=5", "--no-think"]
    done = blazar("run", *arguments, "--keep-alive", "5m", "--format", "json", "-v", "echo", "hi", **with_server)
    assert server.bodies[-1][1] == {
        "model": "echo",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "options": {"temperature": 0.5, "num_predict": 5},
        "think": False,
        "format": "json",
        "keep_alive": "5m",
    }
    assert done.stdout == "You said: hi\n"
    assert done.stderr == "50 tokens at 50.0/s, prompt 12 tokens at 120.0/s, total 2.00 s\n"


def test_words_that_look_like_options_go_after_two_dashes(blazar: Run, with_server: dict[str, str]) -> None:
    assert blazar("run", "echo", "--", "--help", "me", **with_server).stdout == "You said: --help me\n"


def test_reasoning_does_not_get_into_what_a_program_reads(blazar: Run, with_server: dict[str, str]) -> None:
    assert blazar("run", "thinker", "42", **with_server).stdout == "The answer: 42\n"


def test_the_key_of_the_environment_is_sent(blazar: Run, with_server: dict[str, str], server: Daemon) -> None:
    blazar("run", "echo", "hi", BLAZAR_API_KEY="s3cret", **with_server)
    assert server.headers[-1]["authorization"] == "Bearer s3cret"


def test_an_error_in_the_middle_keeps_what_came_and_ends_with_1(blazar: Run, with_server: dict[str, str]) -> None:
    done = blazar("run", "crash", "hi", **with_server)
    assert (done.returncode, done.stdout) == (1, "Once upon \n")
    assert done.stderr == "error: The engine that runs 'crash' was killed by SIGKILL.\n"


def test_an_unknown_model_is_told(blazar: Run, with_server: dict[str, str]) -> None:
    done = blazar("run", "nobody", "hi", **with_server)
    assert (done.returncode, done.stderr) == (1, "error: model 'nobody' not found.\n")


def test_ctrl_c_ends_with_130_and_frees_the_slot(
    env: dict[str, str], with_server: dict[str, str], server: Daemon
) -> None:
    for model in ("slow", "hang"):
        server.left.clear()
        server.streaming.clear()
        with subprocess.Popen(
            [BLAZAR, "run", model, "hi"],
            env=env | with_server,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child:
            assert server.streaming.wait(30)
            time.sleep(0.1)
            os.kill(child.pid, signal.SIGINT)
            assert child.wait(10) == 130
            assert child.stderr is not None
            assert child.stderr.read().strip() == b""
        assert server.left.wait(5), model
