"""Whatever a file of settings holds, it is read or refused with a sentence that names it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from blazar.config import load, options, reference
from blazar.errors import ConfigError

FILE = Path("config.toml")
RIGHT = "\n".join(line.removeprefix("# ") if " = " in line else line for line in reference.defaults().splitlines())


def read(text: str) -> None:
    try:
        load.check(text, FILE)
    except ConfigError as told:
        assert told.message.startswith("config.toml")  # noqa: PT017 (either outcome is right)


@given(st.text())
def test_any_text(text: str) -> None:
    read(text)


@given(st.integers(0, len(RIGHT)), st.integers(0, 40), st.text(max_size=20))
def test_a_right_file_with_a_piece_replaced(at: int, length: int, piece: str) -> None:
    read(RIGHT[:at] + piece + RIGHT[at + length :])


VALUES = st.recursive(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1).map(str),
        st.floats(allow_nan=False, allow_infinity=False).map(lambda number: f"{number:f}"),
        st.sampled_from(["true", "false", "nan", "inf", '"x"', "''", "2026-01-01", "[]", "{}"]),
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=4,
)


@given(st.sampled_from(sorted(options.table())), VALUES)
def test_any_value_for_any_option(key: str, value: str) -> None:
    section, _, name = key.partition(".")
    text = f"[{section}]\n{name} = {value}\n"
    try:
        tables = load.check(text, FILE)
    except ConfigError as told:
        assert told.message.startswith(f"config.toml:2: '{key}' cannot be ")  # noqa: PT017
    else:
        assert tables[section].keys() == {name}


@given(st.sampled_from(sorted(options.table())), st.text())
def test_any_variable(key: str, text: str) -> None:
    with contextlib.suppress(ConfigError):
        load.from_environment({options.find(key).env: text})
