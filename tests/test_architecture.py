"""Rules of the house that neither a linter nor the import contracts can say."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 450

TOP = {
    ".ci", ".clippy.toml", ".git", ".gitignore", ".licenses", ".rustfmt.toml", "Cargo.lock", "Cargo.toml", "README.md",
    "benches", "blazar", "native", "pyproject.toml", "setup.cfg", "tests",
}  # fmt: skip
ROOMS = {
    "admission", "cli", "client", "config", "engines", "gateway", "hardware", "memory", "models", "observe", "peers",
    "relay", "repl", "store", "supervisor", "wheels",
}  # fmt: skip
# What tools leave behind, as .gitignore has it.
GENERATED = {
    "target", "dist", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis",
    ".import_linter_cache", ".log",
}  # fmt: skip


def sources(*endings: str, under: str = "") -> list[Path]:
    """Every source file of ours with one of these endings."""
    start = ROOT / under
    return sorted(
        path
        for path in start.rglob("*")
        if path.suffix in endings and not GENERATED & set(path.relative_to(ROOT).parts) and path.is_file()
    )


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_top_level_holds_what_the_map_says() -> None:
    assert {path.name for path in ROOT.iterdir()} - GENERATED <= TOP


def test_every_room_stands_and_says_what_it_is_for() -> None:
    found = {path.parent.name: ast.parse(path.read_text()) for path in (ROOT / "blazar").glob("*/__init__.py")}
    assert set(found) == ROOMS
    silent = [room for room, tree in found.items() if not ast.get_docstring(tree)]
    assert not silent


def _own_lines(path: Path) -> int:
    """Rust's unit tests sit in the file that they test and do not count."""
    text = path.read_text()
    if path.suffix == ".rs":
        text = text.partition("\n#[cfg(test)]\nmod ")[0]
    return text.count("\n")


def test_no_file_is_too_long() -> None:
    long = {name(path): _own_lines(path) for path in sources(".py", ".pyi", ".pyx", ".rs", ".sh")}
    assert {path: lines for path, lines in long.items() if lines > LONGEST} == {}


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(
        r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|\b(todo|unimplemented)!|raise NotImplemented" r"Error"
    )
    found = [
        f"{name(path)}:{number}"
        for path in sources(".py", ".pyi", ".pyx", ".rs", ".toml", ".cfg", ".md")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marks.search(line)
    ]
    assert found == []


def _public(tree: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            marks = {ast.unparse(mark) for mark in node.decorator_list}
            if marks & {"overload", "typing.overload"} or any(mark.endswith(".setter") for mark in marks):
                continue
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node)


def test_everything_public_has_a_docstring() -> None:
    silent = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path in sources(".py", under="blazar")
        for node in _public(ast.parse(path.read_text()))
        if not ast.get_docstring(node)
    ]
    assert silent == []


def test_modules_are_never_run_from_the_working_directory() -> None:
    """``python -m`` puts it first on the path: in a checkout, that is a package without its compiled parts."""
    wrong = [
        f"{name(path)}:{node.lineno}"
        for path in sources(".py", under="blazar")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.List | ast.Tuple)
        and any(isinstance(item, ast.Attribute) and item.attr == "executable" for item in node.elts)
        and not {"-P", "-I"} & {item.value for item in node.elts if isinstance(item, ast.Constant)}
        and "-m" in [item.value for item in node.elts if isinstance(item, ast.Constant)]
    ]
    assert wrong == []


def test_the_core_is_pure() -> None:
    core = ROOT / "native" / "core"
    assert "#![forbid(unsafe_code)]" in (core / "src" / "lib.rs").read_text()
    needs = set(tomllib.loads((core / "Cargo.toml").read_text())["dependencies"])
    assert not needs & {"pyo3", "tokio", "libc", "mio", "rayon"}
    impure = re.compile(r"\b(std::net|std::thread|std::process|Instant::now|SystemTime::now)\b")
    assert [name(path) for path in sources(".rs", under="native/core/src") if impure.search(path.read_text())] == []


def test_all_agree_on_the_oldest_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    assert project["project"]["requires-python"] == ">=3.11"
    assert project["tool"]["ruff"]["target-version"] == "py311"
    assert project["tool"]["mypy"]["python_version"] == "3.11"
    assert "abi3-py311" in workspace["dependencies"]["pyo3"]["features"]
    assert 'ABI = "0x030B0000"' in (ROOT / "native" / "binding" / "build" / "kernels.py").read_text()


def test_every_dependency_gives_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = text.partition("\ndependencies = [\n")[2].partition("\n]")[0]
    lines = [line for line in block.splitlines() if line.strip()]
    assert lines
    assert [line for line in lines if not re.search(r'",\s+# \S', line)] == []


@pytest.mark.parametrize("file", ["tests/stubs.allow"])
def test_every_exception_gives_its_reason(file: str) -> None:
    lines = (ROOT / file).read_text().splitlines()
    bare = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if line and not line.startswith("#") and not before.startswith("#")
    ]
    assert bare == []
