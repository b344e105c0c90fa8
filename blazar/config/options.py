"""Each option as data, read off the structs of ``schema``: what the loader, the editor, the help and the docs go by."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import inspect

from blazar.config.schema import Config
from blazar.errors import ConfigError

Kind = Literal["string", "integer", "number", "boolean", "choice", "list"]
Value = str | int | float | bool | tuple[str, ...]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


class Option(msgspec.Struct, frozen=True):
    """One setting. ``key`` is ``section.name``; ``unit`` is empty for what has none; ``choices`` only for a choice."""

    key: str
    env: str
    kind: Kind
    unit: str
    default: Value
    help: str
    choices: tuple[str, ...]
    least: float | None
    most: float | None

    @property
    def section(self) -> str:
        """The table of the file that it lies in."""
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        """The key within its table."""
        return self.key.partition(".")[2]

    @property
    def type_words(self) -> str:
        """The type as a reader sees it: ``integer, 0 to 65535``, ``f16 | q8_0``, ``list of strings``."""
        if self.kind == "choice":
            return " | ".join(self.choices)
        if self.kind == "list":
            return "list of strings"
        if self.least is not None and self.most is not None:
            return f"{self.kind}, {self.least:g} to {self.most:g}"
        return f"{self.kind}, at least {self.least:g}" if self.least is not None else self.kind


@cache
def table() -> dict[str, Option]:
    """Every option by its key, in the order of the schema."""
    found: dict[str, Option] = {}
    for section in inspect.type_info(Config).fields:  # type: ignore[attr-defined]
        if not isinstance(section.type, inspect.StructType):
            continue  # the keys, of which there may be many
        for field in section.type.fields:
            option = _option(section.encode_name, field)
            found[option.key] = option
    return found


def find(key: str) -> Option:
    """The option ``key``; a :class:`ConfigError` that names the nearest one otherwise."""
    option = table().get(key)
    if option is None:
        raise ConfigError(f"There is no setting '{key}'.{nearest(key)}")
    return option


def nearest(key: str) -> str:
    """The hint after an unknown key: the closest known one, or where to see them all."""
    keys = list(table())
    # A right name in a wrong table is the commonest slip.
    name = key.rpartition(".")[2]
    twins = [known for known in keys if known.endswith(f".{name}")]
    return f" Did you mean '{twins[0]}'?" if twins else closest(key, keys)


def closest(word: str, known: Sequence[str]) -> str:
    """The hint after an unknown word: the one of ``known`` that is most like it, or where to see the settings."""
    import difflib  # noqa: PLC0415 (only for a slip)

    near = difflib.get_close_matches(word, known, n=1)
    return f" Did you mean '{near[0]}'?" if near else " See them all: blazar config list."


def parse(option: Option, text: str, where: str) -> Value:
    """The value that ``text`` (of a variable or a command line) gives; a list is split at commas.

    ``where`` opens the sentence of the :class:`ConfigError` that a wrong text raises.
    """
    text = text if option.kind == "string" else text.strip()
    match option.kind:
        case "list":
            return tuple(part for part in (piece.strip() for piece in text.split(",")) if part)
        case "boolean" if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        case "integer" if (number := _integer(text)) is not None:
            return check(option, number, where)
        case "number" if (real := _number(text)) is not None:
            return check(option, real, where)
        case "string" | "choice":
            return check(option, text, where)
        case _:
            raise wrong(option, text, where)


def check(option: Option, value: Value, where: str) -> Value:
    """``value`` if it is one of the choices and in range, else a :class:`ConfigError`."""
    if option.kind == "choice" and value not in option.choices:
        raise wrong(option, value, where)
    if isinstance(value, int | float):
        low = option.least is not None and value < option.least
        high = option.most is not None and value > option.most
        if low or high or value != value:  # noqa: PLR0124 (that is how NaN tells itself)
            raise wrong(option, value, where)
    return value


def wrong(option: Option, value: object, where: str) -> ConfigError:
    """The error for a value that the option cannot have."""
    shown = f"'{value}'" if isinstance(value, str) else value
    wanted = f"one of {', '.join(option.choices)}" if option.kind == "choice" else _article(option.type_words)
    unit = f" ({option.unit})" if option.unit else ""
    return ConfigError(f"{where} cannot be {shown}: it takes {wanted}{unit}.")


def _option(section: str, field: inspect.Field) -> Option:
    inner, text = field.type, ""
    while isinstance(inner, inspect.Metadata):
        text = text or str((inner.extra_json_schema or {}).get("description", ""))
        inner = inner.type
    kind, choices, least, most = _shape(inner)
    key = f"{section}.{field.encode_name}"
    return Option(
        key=key,
        env=f"BLAZAR_{section.upper()}_{field.encode_name.upper()}",
        kind=kind,
        unit=_unit(field.encode_name),
        default=field.default,
        help=text,
        choices=choices,
        least=least,
        most=most,
    )


def _shape(kind: Any) -> tuple[Kind, tuple[str, ...], float | None, float | None]:
    match kind:
        case inspect.LiteralType():
            return "choice", tuple(str(value) for value in kind.values), None, None
        case inspect.BoolType():
            return "boolean", (), None, None
        case inspect.IntType():
            return "integer", (), kind.ge, kind.le
        case inspect.FloatType():
            return "number", (), kind.ge, kind.le
        case inspect.VarTupleType():
            return "list", (), None, None
        case inspect.StrType():
            return "string", (), None, None
        case _:
            raise TypeError(f"the schema has an option of a type that nothing can edit: {kind!r}")


def _unit(name: str) -> str:
    if name.endswith("_s"):
        return "seconds"
    return "bytes" if name.endswith("_bytes") else ""


def _article(words: str) -> str:
    return words if words.startswith("list") else f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _integer(text: str) -> int | None:
    try:
        return int(text.replace("_", ""), 10)
    except ValueError:
        return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
