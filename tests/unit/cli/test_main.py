from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from blazar import _native
from blazar.cli import main as program
from blazar.cli.commands import ALIASES, ENTRIES, Entry
from blazar.errors import PortTaken
from tests.unit.cli.conftest import BLAZAR, Run


def test_the_version_is_the_one_of_the_compiled_part(blazar: Run) -> None:
    done = blazar("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"blazar {_native.VERSION}\n", "")


def test_the_help_page_groups_every_command() -> None:
    page = CliRunner().invoke(program.cli, ["--help"]).output
    for entry in ENTRIES:
        section = page.index(f"{entry.group}:")
        assert page.index(entry.help, section) > section
    assert "list, ls" in page
    assert "serve, start" in page


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_each_command_explains_itself(entry: Entry) -> None:
    name = entry.name
    result = CliRunner().invoke(program.cli, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"Usage: cli {name}" in result.output


def test_aliases_lead_to_commands() -> None:
    names = {entry.name for entry in ENTRIES}
    assert set(ALIASES.values()) <= names
    assert not set(ALIASES) & names


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["lst"], "error: There is no command 'lst'. Did you mean 'list'? See: blazar --help"),
        (["run"], "error: Missing argument 'MODEL'. See: blazar run --help"),
        (["ps", "--jsn"], "error: No such option '--jsn'. Did you mean '--json'? See: blazar ps --help"),
        (["run", "m", "--set", "temprature=1", "x"], "There is no parameter 'temprature'. Did you mean 'temperature'?"),
        (["run", "m", "--set", "seed=abc", "x"], "'seed' takes a whole number, not 'abc'. See: blazar run --help"),
        (["run", "m", "--set", "seed", "x"], "it is written NAME=VALUE. See: blazar run --help"),
        (["serve", "--port", "70000"], "70000 is not in the range 0<=x<=65535. See: blazar serve --help"),
    ],
)
def test_usage_is_one_line_and_exit_2(blazar: Run, arguments: list[str], sentence: str) -> None:
    done = blazar(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["push", "login", "logout", "signin", "signout"])
def test_what_is_refused_says_why(blazar: Run, command: str) -> None:
    done = blazar(command, "some/model", "--force")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "this machine" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_taken_port_is_exit_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def taken(*_: object, **__: object) -> None:
        raise PortTaken("127.0.0.1:11435", "process 42 (ollama)")

    monkeypatch.setattr(program.cli, "main", taken)
    assert program.main(["serve"]) == 3
    assert capsys.readouterr().err.startswith("error: 127.0.0.1:11435 is taken by process 42 (ollama).")


def test_a_fault_of_ours_is_one_line_and_the_rest_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("nothing")

    monkeypatch.setenv("BLAZAR_HOME", str(home))
    monkeypatch.setattr(program.cli, "main", broken)
    assert program.main(["ps"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: Something went wrong inside Blazar (KeyError: 'nothing').")
    assert "Traceback" not in told
    log = told.rsplit(" ", 1)[1].strip()
    assert "Traceback" in Path(log).read_text()


def test_a_wrong_setting_is_told_by_any_command(blazar: Run) -> None:
    done = blazar("ps", BLAZAR_SERVER_PORT="lots")
    assert done.returncode == 1
    assert done.stderr == (
        "error: The environment variable BLAZAR_SERVER_PORT cannot be 'lots': it takes an integer, 0 to 65535.\n"
    )


def test_a_reader_that_leaves_is_no_failure_worth_words(env: dict[str, str]) -> None:
    with subprocess.Popen(
        [BLAZAR, "config", "list"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == ""


HEAVY = ("numpy", "falcon", "granian", "uvloop", "sqlite3", "http.client", "email", "ssl", "asyncio", "tomlkit")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["ps"]], ids=" ".join)
def test_nothing_heavy_is_imported(env: dict[str, str], with_server: dict[str, str], arguments: list[str]) -> None:
    code = (
        "import sys; from blazar.cli.main import main; code = main(sys.argv[1:]);"
        f"import json; print(json.dumps([code, [m for m in {HEAVY} + ('importlib.metadata',) if m in sys.modules]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=env | with_server, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [0, []]


def test_version_and_help_do_without_the_settings(env: dict[str, str]) -> None:
    code = (
        "import sys; from blazar.cli.main import main; main(['--version']);"
        "print([m for m in sys.modules if m.startswith(('msgspec', 'blazar.config', 'blazar.client'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
