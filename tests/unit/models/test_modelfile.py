"""Modelfiles as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar.errors import BadRequest
from blazar.models import modelfile
from blazar.models.overlay import Said

WHOLE = '''# A fox.
FROM smollm2:135m

parameter temperature 0.7
PARAMETER num_ctx 4096
PARAMETER stop "<|end|>"
PARAMETER stop User:
SYSTEM """
You are a fox.
You say "yip".
"""
TEMPLATE "{{ .Prompt }}"
MESSAGE user Hello there
MESSAGE assistant "Yip."
MESSAGE user """two
lines"""
LICENSE Free.
LICENSE """As in air."""
PARSER qwen3
# the end'''


def test_all_of_it() -> None:
    told = modelfile.parse(WHOLE)
    assert told.base == "smollm2:135m"
    sets = told.overlay
    assert sets.parameters == {"temperature": 0.7, "num_ctx": 4096, "stop": ["<|end|>", "User:"]}
    assert sets.system == '\nYou are a fox.\nYou say "yip".\n'
    assert sets.template == "{{ .Prompt }}"
    assert sets.messages == [Said("user", "Hello there"), Said("assistant", "Yip."), Said("user", "two\nlines")]
    assert sets.license == ["Free.", "As in air."]
    assert told.idle == ("PARSER",)


def test_line_ends_of_windows_and_paths_with_spaces() -> None:
    told = modelfile.parse("FROM ./my models/a b.gguf\r\nSYSTEM Be brief.\r\n")
    assert (told.base, told.overlay.system) == ("./my models/a b.gguf", "Be brief.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "FROM which model"),
        ("SYSTEM x", "FROM which model"),
        ("FROM", "Line 1: FROM says nothing"),
        ('FROM a\nSYSTEM """open', "Line 2: the text in"),
        ("FROM a\n\nFLY high", "Line 3: 'FLY' is no instruction"),
        ("FROM a\nPARAMETER temperature", "Line 2: a parameter is written"),
        ("FROM a\nPARAMETER temperature hot", "Expected a number"),
        ("FROM a\nMESSAGE fox hi", "Line 2: a message is of"),
        ("FROM a\nDRAFT ./draft.gguf", "Line 2: DRAFT cannot"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        modelfile.parse(text)


@given(st.text(max_size=300))
def test_no_text_breaks_it(text: str) -> None:
    for candidate in (text, f"FROM a\n{text}"):
        try:
            told = modelfile.parse(candidate)
        except BadRequest:
            continue
        assert told.base
