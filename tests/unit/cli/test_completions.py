from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

BASH = """
eval "$(blazar completions bash)"
COMP_WORDS=({words}); COMP_CWORD={at}
_blazar_completion blazar
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def in_shell(shell: str, script: str, env: dict[str, str]) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{Path(sys.executable).parent}:{env['PATH']}"
    done = subprocess.run(
        [shell, "-c", script], env=env | {"PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("words", "at", "found"),
    [
        ("blazar pu", 1, {"pull", "push"}),
        ("blazar config s", 2, {"set"}),
        ("blazar config get server.p", 3, {"server.port"}),
        ("blazar ps --j", 2, {"--json"}),
        ("blazar completions ''", 2, {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(env: dict[str, str], words: str, at: int, found: set[str]) -> None:
    assert set(in_shell("bash", BASH.format(words=words, at=at), env)) == found


def test_zsh_takes_the_script_and_completes(env: dict[str, str]) -> None:
    script = """
    autoload -U compinit; compinit -D -u
    eval "$(blazar completions zsh)"
    [[ $_comps[blazar] == _blazar_completion ]] && print registered
    COMP_WORDS="blazar pu" COMP_CWORD=1 _BLAZAR_COMPLETE=zsh_complete blazar
    """
    lines = in_shell("zsh", script, env)
    assert lines[0] == "registered"
    assert {"pull", "push"} <= set(lines)


def test_fish_completes(env: dict[str, str]) -> None:
    lines = in_shell("fish", "blazar completions fish | source; complete -C 'blazar pu'", env)
    assert {line.split("\t")[0] for line in lines} == {"pull", "push"}


def test_an_unknown_shell_is_refused(blazar: Run) -> None:
    done = blazar("completions", "powershell")
    assert done.returncode == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr
