"""``blazar bench``: how fast a model reads and writes, straight at its engine and through the gateway."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from blazar import store
from blazar.cli import output
from blazar.cli.completions import ModelName
from blazar.cli.place import here
from blazar.client.speed import Result, Scenario, Way, measure
from blazar.errors import BadRequest, Conflict

if TYPE_CHECKING:
    from blazar.client import Client
    from blazar.client.types import Running
    from blazar.config.paths import Paths

_HEAD = ("PROMPT", "AT ONCE", "READS/S", "WRITES/S", "FIRST TEXT", "THE ENGINE ALONE", "GATEWAY ADDS")
_RIGHT = frozenset(_HEAD)
_WIDE = 40
_SPARE = 16


class _Numbers(click.ParamType):  # type: ignore[type-arg]
    name = "N,N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Whole numbers above 0, with commas between them."""
        if isinstance(value, tuple):
            return value
        words = str(value).split(",")
        if not all(word.strip().isdecimal() and 0 < int(word) <= 1 << 20 for word in words):
            self.fail(f"{value!r} is not a list of whole numbers, such as 128,512.", param, ctx)
        return tuple(int(word) for word in words)


class _Child(msgspec.Struct):
    """What is kept of a running engine for whoever may read this home."""

    pid: int
    model: str
    secret: str
    unix: str = ""
    port: int = 0


class Run(msgspec.Struct, frozen=True):
    """One run as it is kept and shown."""

    model: str
    build: str
    at_ns: int
    results: tuple[Result, ...]


@click.command()
@click.argument("model", type=ModelName())
@click.option("--prompt", "prompts", type=_Numbers(), default="128,512,2048", show_default=True, help="Tokens to read.")
@click.option("--at-once", type=_Numbers(), default="1,4", show_default=True, help="Requests at once.")
@click.option("--tokens", type=click.IntRange(16, 4096), default=64, show_default=True, help="Tokens of each answer.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="How often each is measured.")
@click.option("--history", is_flag=True, help="Only show what earlier runs measured.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="Draw all runs into this file.")
@output.json_option
def bench(
    model: str,
    prompts: tuple[int, ...],
    at_once: tuple[int, ...],
    tokens: int,
    rounds: int,
    history: bool,
    png: Path | None,
    as_json: bool,
) -> None:
    """Measure how fast MODEL reads and writes, at several lengths and with several requests at once.

    The same requests go straight to the engine and through the gateway, in turn. Each run is kept.
    """
    from blazar.models.library import Library  # noqa: PLC0415 (slow to import)

    paths, config = here()
    name = Library(paths, config).show(model).name
    if not history:
        _run(paths, name, [(length, count) for length in prompts for count in at_once], tokens, rounds)
    with store.open(paths.database) as kept:
        runs = [
            Run(row.model, row.build, row.at_ns, msgspec.json.decode(row.results, type=tuple[Result, ...]))
            for row in kept.benches.list(name)
        ]
    if as_json:
        output.json_lines(runs if history else runs[-1:])
    elif not runs:
        output.notes().line(f"Nothing was measured of {name} yet: blazar bench {name}")
    elif history:
        _show_history(runs)
    else:
        _show(runs)
    if png is not None:
        _draw(runs, png)
        output.notes().line(f"Drawn into {png}.")


def _run(paths: Paths, name: str, wanted: Sequence[tuple[int, int]], tokens: int, rounds: int) -> None:
    from blazar.cli.run import daemon  # noqa: PLC0415 (what talks is slow to import)

    client, notes = daemon(*here()), output.notes()
    notes.line(f"Loading {name}")
    client.load(name)
    running = _running(client, name)
    scenarios = []
    for length, count in wanted:
        if length + tokens + _SPARE > running.context_length:
            notes.line(f"Left out: {length} tokens do not fit into a context of {running.context_length}.")
        elif count > running.blazar.slots:
            notes.line(f"Left out: {count} at once, where the engine takes {running.blazar.slots}.")
        else:
            scenarios.append(Scenario(length, count, tokens))
    if not scenarios:
        raise BadRequest("Nothing is left to measure. Give shorter prompts, or fewer at once.")
    ways = _ways(paths, client, name, running)
    results = measure(ways, scenarios, rounds, lambda what: notes.line(f"Measuring {what}"))
    with store.open(paths.database) as kept:
        told = msgspec.json.encode(results).decode()
        kept.benches.add(store.BenchRow(name, running.blazar.build, time.time_ns(), told))


def _running(client: Client, name: str) -> Running:
    found = next((one for one in client.ps() if one.name == name), None)
    if found is None:
        raise Conflict(f"'{name}' left memory again before it could be measured.")
    return found


def _ways(paths: Paths, client: Client, name: str, running: Running) -> list[Way]:
    """Through the gateway, and straight to the engine where this user may read how."""
    ways = [Way("gateway", name, client.key or "", host=client.host, port=client.port)]
    for path in paths.run.glob("*.child"):
        try:
            child = msgspec.json.decode(path.read_bytes(), type=_Child)
        except (OSError, msgspec.DecodeError):
            continue
        if child.pid == running.blazar.pid:
            ways.append(Way("engine", name.replace(",", "_"), child.secret, unix=child.unix, port=child.port))
    return ways


def _show(runs: Sequence[Run]) -> None:
    last, before = runs[-1], runs[-2] if len(runs) > 1 else None
    # Each scenario was measured on all ways, one after the other.
    alone = [one for one in last.results if one.way == "engine"]
    mine = [one for one in last.results if one.way == "gateway"]
    output.table(_HEAD, [_row(one, straight) for one, straight in zip_longest(mine, alone)], _RIGHT)
    notes = output.notes()
    notes.line(f"Of {last.model} on {last.build}; tokens a second, of all requests together.")
    if before is not None and (then := _typical(before)) and (now := _typical(last)):
        when = output.ago((time.time_ns() - before.at_ns) / 1e9)
        notes.line(
            f"It writes {now:.1f} tokens/s ({now / then - 1:+.0%}); {when}, on {before.build}, it was {then:.1f}."
        )


def _row(one: Result, straight: Result | None) -> tuple[str, ...]:
    adds = f"{one.first_ms - straight.first_ms:+.1f} ms" if straight is not None else "-"
    return (
        str(one.prompt),
        str(one.at_once),
        f"{one.read:.0f}",
        _rate(one),
        f"{one.first_ms:.0f} ms",
        _rate(straight),
        adds,
    )


def _rate(one: Result | None) -> str:
    return f"{one.write:.1f}" if one is not None and one.write else "-"


def _show_history(runs: Sequence[Run]) -> None:
    """A bar for each run: how fast one request was written."""
    most = max(_typical(run) for run in runs)
    rows = []
    for run in runs:
        speed = _typical(run)
        bar = "#" * max(1, round(_WIDE * speed / most)) if most else ""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.at_ns / 1e9))
        rows.append((when, run.build, f"{speed:.1f}" if speed else "-", bar))
    output.table(("WHEN", "BUILD", "WRITES/S", ""), rows, frozenset({"WRITES/S"}))


def _typical(run: Run) -> float:
    """The writing speed of a run for one reader: of the shortest prompt, through the gateway."""
    mine = [one for one in run.results if one.way == "gateway"]
    return min(mine, key=lambda one: (one.at_once, one.prompt)).write if mine else 0.0


def _draw(runs: Sequence[Run], png: Path) -> None:
    try:
        import matplotlib  # noqa: PLC0415 (optional)
    except ImportError as missing:
        raise BadRequest("Drawing takes matplotlib: pip install 'blazar[plot]'") from missing
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 (optional)

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for at_once in sorted({one.at_once for run in runs for one in run.results}):
        points = [
            (number, max(one.write for one in run.results if one.way == "gateway" and one.at_once == at_once))
            for number, run in enumerate(runs, 1)
            if any(one.way == "gateway" and one.at_once == at_once for one in run.results)
        ]
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{at_once} at once")
    axes.set_title(f"{runs[-1].model}: tokens written a second")
    axes.set_xlabel("run")
    axes.set_ylim(bottom=0)
    axes.set_xticks(range(1, len(runs) + 1))
    axes.legend()
    figure.savefig(png, format="png", dpi=150)
    pyplot.close(figure)
