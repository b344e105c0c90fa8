"""Ollama's Modelfile: a model to begin with, and what is set over it. Pure.

Grammar: instructions in any case, one a line; a value is bare to the end of its line, in quotes, or in triple quotes
over several lines; ``#`` begins a comment where an instruction could begin.
"""

from __future__ import annotations

import re

import msgspec

from blazar.errors import BadRequest
from blazar.models import overlay as overlays
from blazar.models.overlay import Overlay, Said

_ROLES = ("system", "user", "assistant")
_LISTED = frozenset({"stop"})
# They say how Ollama's own engine reads and writes a model; the model's own template says it here.
_IDLE = frozenset({"renderer", "parser", "requires"})
_WORD = re.compile(r"\s*(\S+)[ \t]*")
_TRIPLE = re.compile(r'"""(.*?)"""[ \t]*(?:\r?\n|$)', re.DOTALL)
_QUOTED = re.compile(r'"([^"\n]*)"[ \t]*(?:\r?\n|$)')
_LINE = re.compile(r"([^\n]*)(?:\n|$)")


class Modelfile(msgspec.Struct, frozen=True):
    """``base`` is what stands behind ``FROM``, ``adapters`` behind each ``ADAPTER``; ``idle`` names instructions that
    have no effect here.
    """

    base: str
    overlay: Overlay
    idle: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()


def parse(text: str) -> Modelfile:
    """Read it. Raises BadRequest with the line of the fault."""
    reader = _Reader()
    at = 0
    while (found := _WORD.match(text, at)) is not None:
        line = text.count("\n", 0, found.start(1)) + 1
        word = found[1].lower()
        if word.startswith("#"):
            at = _end_of_line(text, found.start(1))
            continue
        value, at = _value(text, found.end(), line, spaced=word in ("parameter", "message"))
        reader.take(word, value, line)
    if not reader.base:
        raise BadRequest("A Modelfile says FROM which model or file it begins.")
    overlay = reader.overlay
    overlay.parameters = overlays.checked(overlay.parameters)
    return Modelfile(reader.base, overlay, tuple(dict.fromkeys(reader.idle)), tuple(reader.adapters))


class _Reader:
    """What was said so far."""

    def __init__(self) -> None:
        self.base = ""
        self.overlay = Overlay()
        self.idle: list[str] = []
        self.adapters: list[str] = []

    def take(self, word: str, value: str, line: int) -> None:
        """One instruction. Raises BadRequest."""
        if word == "from":
            if not value:
                raise BadRequest(f"Line {line}: FROM says nothing.")
            self.base = value
        elif word == "parameter":
            name, _, rest = value.partition(" ")
            _parameter(self.overlay, name.lower(), _unquoted(rest.strip()), line)
        elif word in ("system", "template"):
            setattr(self.overlay, word, value)
        elif word == "license":
            self.overlay.license = [*self.overlay.license, value]
        elif word == "message":
            self._message(value, line)
        elif word in _IDLE:
            self.idle.append(word.upper())
        elif word == "adapter":
            self.adapters.append(value)
        elif word == "draft":
            raise BadRequest(f"Line {line}: DRAFT cannot be put on models here yet.")
        else:
            raise BadRequest(
                f"Line {line}: '{word[:40].upper()}' is no instruction; there are FROM, PARAMETER, TEMPLATE, SYSTEM, "
                f"ADAPTER, MESSAGE and LICENSE."
            )

    def _message(self, value: str, line: int) -> None:
        role, _, content = value.partition(" ")
        if role.lower() not in _ROLES:
            raise BadRequest(f"Line {line}: a message is of {', '.join(_ROLES)}, not of '{role[:40]}'.")
        self.overlay.messages = [*self.overlay.messages, Said(role.lower(), _unquoted(content.strip()))]


def _value(text: str, at: int, line: int, *, spaced: bool) -> tuple[str, int]:
    """The value that begins at ``at``, and where it ends. ``spaced``: a word comes before what may be quoted."""
    lead = ""
    if spaced and (word := re.compile(r'([^\s"]+)[ \t]+').match(text, at)) is not None:
        lead, at = f"{word[1]} ", word.end()
    if text.startswith('"""', at):
        found = _TRIPLE.match(text, at)
        if found is None:
            raise BadRequest(f'Line {line}: the text in """ has no end.')
        return lead + found[1], found.end()
    found = _QUOTED.match(text, at) or _LINE.match(text, at)
    assert found is not None
    return lead + (found[1] if found.re is _QUOTED else found[1].strip()), found.end()


def _parameter(overlay: Overlay, name: str, value: str, line: int) -> None:
    if not name or not value:
        raise BadRequest(f"Line {line}: a parameter is written PARAMETER NAME VALUE.")
    read: object = value
    if name not in _LISTED:
        try:
            read = msgspec.json.decode(value)
        except msgspec.DecodeError:
            read = value
    if name in _LISTED:
        read = [*overlay.parameters.get(name, []), value]
    overlay.parameters = {**overlay.parameters, name: read}


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1
