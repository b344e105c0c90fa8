"""What commands print: tables, cards, JSON lines, sizes and times."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click
import msgspec

from blazar.repl.screen import Screen

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = ("B", "kB", "MB", "GB", "TB")
_FOREVER_S = 20 * 365 * 86400


def json_option(command: F) -> F:
    """The option ``--json`` of a command that prints a table."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row.")(command)


def out() -> Screen:
    """Standard output."""
    return Screen(sys.stdout)


def notes() -> Screen:
    """Standard error: what is for the reader and not for the next program."""
    return Screen(sys.stderr)


def json_lines(rows: Iterable[Any]) -> None:
    """One JSON object a line."""
    for row in rows:
        click.echo(msgspec.json.encode(row))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str] = frozenset()) -> None:
    """Columns under their names; those in ``right`` are flush right. Cells may hold no colours."""
    screen = out()
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for number, row in enumerate((head, *rows)):
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(head, row, widths, strict=True)
        ]
        text = screen.safe("  ".join(cells).rstrip())
        click.echo(screen.dim(text) if number == 0 else text)


def card(rows: Sequence[tuple[str, str]]) -> None:
    """Names and values, one a line; a value of several lines is indented under itself."""
    screen = out()
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        first, *others = screen.safe(value).splitlines() or [""]
        click.echo(f"{screen.dim(name.ljust(width))}  {first}".rstrip())
        for line in others:
            click.echo(f"{'':{width}}  {line}".rstrip())


def size(count: int) -> str:
    """Bytes in decimal units, three digits: ``93.2 MB``."""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {_UNITS[unit]}"


def count(number: int) -> str:
    """A number of parameters: ``135M``, ``7.6B``."""
    for limit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= limit:
            value = number / limit
            return f"{value:.0f}{letter}" if value >= 100 else f"{value:.3g}{letter}"
    return str(number)


def duration(seconds: float) -> str:
    """The two largest units: ``1h 05m``, ``2m 07s``, ``9s``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02}h"


def ago(seconds: float) -> str:
    """How long since, in one word and its unit: ``3 hours ago``."""
    for limit, name in ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= limit:
            number = int(seconds // limit)
            return f"{number} {name}{'' if number == 1 else 's'} ago"
    return "just now"


def until(rfc3339: str) -> str:
    """When an instance leaves, as a wait: ``29m 50s``, ``forever``, ``now``; ``-`` if it is not said."""
    try:
        left = datetime.fromisoformat(rfc3339).timestamp() - time.time()
    except ValueError:
        return "-"
    if left > _FOREVER_S:
        return "forever"
    return "now" if left <= 0 else duration(left)
