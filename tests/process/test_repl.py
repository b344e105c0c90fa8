"""The prompt as a person uses it: on a terminal, with keys."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.support.daemon import Daemon, daemon

BLAZAR = str(Path(sys.executable).with_name("blazar"))
PROMPT = ">>> "
_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def server() -> Iterator[Daemon]:
    with daemon() as running:
        yield running


class Terminal:
    """A terminal with the prompt in it."""

    def __init__(self, server: Daemon, home: Path, *arguments: str, **more: str) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("BLAZAR_", "NO_COLOR"))}
        port = str(server.server_address[1])
        env |= {"BLAZAR_HOME": str(home), "BLAZAR_SERVER_PORT": port, "TERM": "xterm", "LANG": "C.UTF-8"} | more
        self.child = pexpect.spawn(
            BLAZAR, ["run", *arguments], env=env, encoding="utf-8", timeout=30, dimensions=(40, 120)
        )
        self.child.delaybeforesend = None

    def until(self, text: str) -> str:
        """What is shown up to ``text``, as it was sent to the terminal."""
        self.child.expect_exact(text)
        return str(self.child.before)

    def say(self, text: str) -> str:
        """Type a line, and what is shown up to the next prompt, without colours."""
        self.child.sendline(text)
        return _STYLE.sub("", self.until(PROMPT))


@pytest.fixture
def terminal(server: Daemon, home: Path) -> Iterator[Terminal]:
    found = Terminal(server, home, "echo")
    found.until(PROMPT)
    yield found
    found.child.close(force=True)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def messages(server: Daemon) -> list[tuple[str, str]]:
    chats = [body for path, body in server.bodies if path == "/api/chat"]
    return [(message["role"], message["content"]) for message in chats[-1]["messages"]]


def test_a_conversation_is_sent_whole_and_can_be_forgotten(terminal: Terminal, server: Daemon) -> None:
    assert "You said: hi" in terminal.say("hi")
    assert "You said: again" in terminal.say("again")
    assert messages(server) == [("user", "hi"), ("assistant", "You said: hi"), ("user", "again")]
    terminal.say("/clear")
    terminal.say("/set system be brief")
    terminal.say("new")
    assert messages(server) == [("system", "be brief"), ("user", "new")]


def test_several_lines_are_one_message(terminal: Terminal, server: Daemon) -> None:
    terminal.child.sendline('"""first')
    terminal.until("... ")
    terminal.child.sendline("second")
    terminal.until("... ")
    terminal.say('third"""')
    assert messages(server)[-1] == ("user", "first\nsecond\nthird")


def test_pasted_lines_are_one_message(terminal: Terminal, server: Daemon) -> None:
    terminal.child.send("\x1b[200~one\ntwo\x1b[201~")
    terminal.say("")
    assert messages(server)[-1] == ("user", "one\ntwo")


def test_ctrl_c_stops_the_answer_and_not_the_program(terminal: Terminal, server: Daemon) -> None:
    terminal.say("/load slow")
    terminal.child.sendline("go")
    terminal.until("20 21 22")
    terminal.child.sendintr()
    assert "(stopped)" in terminal.until(PROMPT)
    assert server.left.wait(5)
    terminal.say("/load echo")
    assert "You said: still here" in terminal.say("still here")
    # What was seen stays in the conversation, so that one can go on from it.
    (_, go), (role, seen), (_, last) = messages(server)
    assert (go, role, last) == ("go", "assistant", "still here")
    assert seen.startswith("0 1 2 ")


def test_ctrl_c_while_nothing_came_yet_drops_the_message(terminal: Terminal, server: Daemon) -> None:
    terminal.say("/load hang")
    terminal.child.sendline("are you there")
    assert server.streaming.wait(10)
    terminal.child.sendintr()
    terminal.until(PROMPT)
    assert server.left.wait(5)
    terminal.say("/load echo")
    terminal.say("hi")
    assert messages(server) == [("user", "hi")]


def test_ctrl_c_at_the_prompt_drops_the_line_and_ctrl_d_leaves(terminal: Terminal) -> None:
    terminal.child.send("half a line")
    terminal.until("half a line")
    # Python hears a signal while readline waits, not while it draws the last key.
    time.sleep(0.3)
    terminal.child.sendintr()
    terminal.until("Ctrl-D or /bye to leave.")
    terminal.until(PROMPT)
    assert "You said: whole" in terminal.say("whole")
    terminal.child.sendeof()
    terminal.child.expect(pexpect.EOF)
    terminal.child.close()
    assert terminal.child.exitstatus == 0


def test_parameters_reach_the_daemon_and_can_be_taken_back(terminal: Terminal, server: Daemon) -> None:
    terminal.say("/set parameter temperature 0.2")
    terminal.say('/set parameter stop "END OF IT" "\\n"')
    terminal.say("/set think")
    terminal.say("hi")
    body = server.bodies[-1][1]
    assert body["options"] == {"temperature": 0.2, "stop": ["END OF IT", "\\n"]}
    assert body["think"] is True
    terminal.say("/set parameter temperature")
    terminal.say("/set parameter stop")
    terminal.say("hi")
    assert "options" not in server.bodies[-1][1]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/hlep", "error: There is no command '/hlep'. Did you mean /help?"),
        ("/set parameter heat 1", "error: There is no parameter 'heat'."),
        ("/set parameter top_k many", "error: 'top_k' takes a whole number, not 'many'."),
        ("/set nonsense", "error: There are /set system,"),
        ("/load nobody", "error: model 'nobody' not found."),
        ("/load", "error: Say which model: /load MODEL"),
        ("/set parameter", "error: Say which: /set parameter NAME VALUE"),
    ],
)
def test_a_wrong_command_is_told_and_asks_the_model_nothing(
    terminal: Terminal, server: Daemon, line: str, told: str
) -> None:
    assert told in terminal.say(line)
    assert not [path for path, _ in server.bodies if path == "/api/chat"]
    assert "You said: hi" in terminal.say("hi")


def test_a_path_is_a_message(terminal: Terminal) -> None:
    assert "You said: /usr/bin/env is what?" in terminal.say("/usr/bin/env is what?")


def test_an_error_ends_the_answer_and_not_the_conversation(terminal: Terminal, server: Daemon) -> None:
    terminal.say("/load crash")
    shown = terminal.say("tell me")
    assert "Once upon" in shown
    assert "error: The engine that runs 'crash' was killed by SIGKILL." in shown
    terminal.say("/load echo")
    terminal.say("hi")
    assert messages(server) == [("user", "hi")]


def test_the_help_and_what_is_set_are_shown(terminal: Terminal) -> None:
    assert "/set parameter NAME VALUE" in terminal.say("/help")
    terminal.say("/set parameter seed 7")
    shown = terminal.say("/show")
    assert re.search(r"model +echo", shown)
    assert re.search(r"seed +7", shown)
    assert re.search(r"parameters +134,515,008", terminal.say("/show model"))


def test_reasoning_is_dim_and_no_part_of_the_conversation(terminal: Terminal, server: Daemon) -> None:
    terminal.say("/load thinker")
    terminal.child.sendline("42")
    shown = terminal.until(PROMPT)
    assert "\x1b[2mLet me see. \x1b[0m" in shown
    assert "\x1b[2mThe " not in shown
    terminal.say("more")
    assert messages(server)[1] == ("assistant", "The answer: 42")


def test_a_model_cannot_command_the_terminal(terminal: Terminal) -> None:
    terminal.say("/load escape")
    terminal.child.sendline("x")
    shown = terminal.until(PROMPT)
    assert "]0;ownedred [31mtext" in shown
    assert "\x1b]0;" not in shown
    assert "\x1b[31m" not in shown


def test_no_colour_where_it_is_not_wanted(server: Daemon, home: Path) -> None:
    terminal = Terminal(server, home, "thinker", NO_COLOR="1")
    terminal.until(PROMPT)
    terminal.child.sendline("42")
    assert not re.search(r"\x1b\[[0-9;]+m", terminal.until(PROMPT))
    terminal.child.close(force=True)


def test_history_is_kept_for_the_next_time_and_for_nobody_else(server: Daemon, home: Path) -> None:
    first = Terminal(server, home, "echo")
    first.until(PROMPT)
    first.say("remember me")
    first.child.sendline("/bye")
    first.child.expect(pexpect.EOF)
    first.child.close()
    assert first.child.exitstatus == 0
    assert (home / "data" / "history").stat().st_mode & 0o777 == 0o600
    second = Terminal(server, home, "echo")
    second.until(PROMPT)
    second.child.send("\x1b[A\x1b[A")
    assert "You said: remember me" in second.say("")
    second.child.close(force=True)


def test_commands_complete(terminal: Terminal, server: Daemon) -> None:
    terminal.child.send("/set param\ttemp\t")
    terminal.say("0.5")
    terminal.say("hi")
    assert server.bodies[-1][1]["options"] == {"temperature": 0.5}


def test_a_wrong_model_ends_the_command_before_any_prompt(server: Daemon, home: Path) -> None:
    terminal = Terminal(server, home, "nobody")
    terminal.child.expect(pexpect.EOF)
    assert "model 'nobody' not found." in str(terminal.child.before)
    terminal.child.close()
    assert terminal.child.exitstatus == 1
