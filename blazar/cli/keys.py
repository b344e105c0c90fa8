"""``blazar keys``: who may ask, for what, and for how much. A running daemon follows the file at once."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
import msgspec

from blazar.cli import output
from blazar.cli.completions import Completed
from blazar.config import keys as keyring
from blazar.config import load
from blazar.config.paths import Paths
from blazar.config.schema import KeyEntry

if TYPE_CHECKING:
    from blazar.store import UsageRow

_HEAD = ("NAME", "KEY", "MODELS", "RPM", "TPM", "DAILY", "AT ONCE", "WEIGHT", "REQUESTS", "TOKENS TODAY")
_RIGHT = frozenset(_HEAD[3:])
_DAY_S = 86_400


class _Name(Completed):
    name = "name"

    def known(self) -> Iterable[tuple[str, str | None]]:
        """Every key."""
        return [(entry.name, keyring.hint(entry)) for entry in load.load(Paths.from_env()).keys]


class _Row(msgspec.Struct):
    name: str
    hint: str
    models: tuple[str, ...]
    rpm: int
    tpm: int
    daily_tokens: int
    max_concurrent: int
    weight: int
    requests_today: int
    prompt_tokens_today: int
    completion_tokens_today: int


class _Made(msgspec.Struct):
    name: str
    key: str


@click.group()
def keys() -> None:
    """Say who may ask, for what, and for how much. As soon as there is one key, nothing is answered without."""


@keys.command("list")
@output.json_option
def list_(as_json: bool) -> None:
    """List the keys, their bounds, and what they used today (UTC). Secrets are known to nobody."""
    paths = Paths.from_env()
    known = load.load(paths).keys
    if not known and not as_json:
        output.notes().line("There is no key: whoever reaches the address may do everything.")
        return
    rows = _rows(known, _today(paths) if known else {})
    if as_json:
        output.json_lines(rows)
    else:
        output.table(_HEAD, [_cells(row) for row in rows], _RIGHT)


@keys.command("add")
@click.argument("name")
@click.option("--model", "-m", "models", multiple=True, help="A model that it may use, * for any characters; repeat.")
@click.option("--rpm", type=click.IntRange(0), default=0, help="Requests a minute.")
@click.option("--tpm", type=click.IntRange(0), default=0, help="Tokens a minute.")
@click.option("--daily-tokens", type=click.IntRange(0), default=0, help="Tokens a day (UTC).")
@click.option("--max-concurrent", type=click.IntRange(0), default=0, help="Requests at once.")
@click.option("--weight", type=click.IntRange(1, 1000), default=1, show_default=True, help="Share of a busy model.")
@output.json_option
def add(
    name: str,
    models: tuple[str, ...],
    rpm: int,
    tpm: int,
    daily_tokens: int,
    max_concurrent: int,
    weight: int,
    as_json: bool,
) -> None:
    """Make the key NAME, and print its secret, this once. Without --model it may use everything, and manage."""
    entry = KeyEntry(
        name=name,
        key="",
        models=models,
        rpm=rpm,
        tpm=tpm,
        daily_tokens=daily_tokens,
        max_concurrent=max_concurrent,
        weight=weight,
    )
    paths = Paths.from_env()
    first = not load.load(paths).keys
    _show(name, keyring.add(paths, entry), as_json=as_json)
    if first:
        output.notes().line("From now on, nothing is answered without a key.")


@keys.command("rm")
@click.argument("name", type=_Name())
@click.option("--last", is_flag=True, help="Also when it is the last one: then everybody may do everything.")
def remove(name: str, last: bool) -> None:
    """Take the key NAME away. It is worth nothing any more."""
    keyring.remove(Paths.from_env(), name, last=last)
    output.notes().line(f"The key '{name}' is gone.")


@keys.command("rotate")
@click.argument("name", type=_Name())
@output.json_option
def rotate(name: str, as_json: bool) -> None:
    """Give the key NAME a new secret, and print it, this once. All else about it stays."""
    _show(name, keyring.rotate(Paths.from_env(), name), as_json=as_json)


def _show(name: str, secret: str, *, as_json: bool) -> None:
    if as_json:
        output.json_lines([_Made(name, secret)])
        return
    click.echo(secret)
    output.notes().line(f"This is the secret of '{name}'. It is not kept: only its hash is.")


def _today(paths: Paths) -> dict[str, UsageRow]:
    from blazar import store  # noqa: PLC0415 (only for this table)

    if not paths.database.exists():
        return {}
    with store.open(paths.database) as opened:
        return opened.usage.on(int(time.time()) // _DAY_S)


def _rows(known: tuple[KeyEntry, ...], today: dict[str, UsageRow]) -> list[_Row]:
    rows = []
    for entry in known:
        used = today.get(entry.name)
        counts = (used.requests, used.prompt, used.completion) if used else (0, 0, 0)
        bounds = (entry.rpm, entry.tpm, entry.daily_tokens, entry.max_concurrent)
        rows.append(_Row(entry.name, keyring.hint(entry), entry.models, *bounds, entry.weight, *counts))
    return rows


def _cells(row: _Row) -> tuple[str, ...]:
    bounds = (row.rpm, row.tpm, row.daily_tokens, row.max_concurrent)
    tokens = row.prompt_tokens_today + row.completion_tokens_today
    return (
        row.name,
        row.hint or "-",
        ", ".join(row.models) or "all, and manage",
        *(str(bound) if bound else "-" for bound in bounds),
        str(row.weight),
        str(row.requests_today),
        str(tokens),
    )
