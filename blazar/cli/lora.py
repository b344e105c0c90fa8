"""``blazar lora``: adapters on models. A model with one is a model of its own, ``MODEL+ADAPTER``."""

from __future__ import annotations

import math
from pathlib import Path

import click

from blazar.cli import output
from blazar.cli.completions import ModelName
from blazar.cli.models import remove
from blazar.cli.place import here
from blazar.errors import NotFound
from blazar.models import overlay
from blazar.models.library import Library

_HEAD = ("NAME", "SCALE", "SIZE", "FILE")


@click.group()
def lora() -> None:
    """Put adapters (LoRA, in GGUF) on models, take them off, list them."""


@lora.command()
@click.argument("model", type=ModelName())
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--scale", type=float, default=1.0, show_default=True, help="How strongly it counts.")
@click.option("--name", default="", help="What stands behind the '+'; otherwise the file's name.")
def add(model: str, path: Path, scale: float, name: str) -> None:
    """Make a variant of MODEL with the adapter in the file PATH on it. MODEL stays as it is.

    The variant is asked for as MODEL+NAME, and has an engine of its own; the weights are on disk once.
    """
    if not math.isfinite(scale):
        raise click.UsageError("The scale is a number such as 1 or 0.5.")
    made = Library(*here()).variant(model, path.absolute(), scale, name)
    output.notes().line(f"Ready: {made.name}. Talk to it: blazar run {made.name}")


@lora.command("rm")
@click.argument("variants", nargs=-1, required=True, type=ModelName())
@click.pass_context
def remove_(ctx: click.Context, variants: tuple[str, ...]) -> int:
    """Remove VARIANTS (MODEL+ADAPTER) and their adapters. The models stay."""
    library = Library(*here())
    for name in variants:
        if not overlay.adapters(library.show(name).overlay):
            raise NotFound(f"adapter on '{name}'")
    failed: int = ctx.invoke(remove, models=variants)
    return failed


@lora.command("list")
@click.argument("model", required=False, type=ModelName())
@output.json_option
def list_(model: str | None, as_json: bool) -> None:
    """List the variants, of all models or of MODEL."""
    library = Library(*here())
    base = library.show(model).name if model else ""
    rows = [
        {"name": one.name, "scale": adapter.scale, "size": _size(adapter.path), "file": adapter.path}
        for one in library.list()
        if not base or one.name == base or one.name.startswith(f"{base.removesuffix(':latest')}+")
        for adapter in overlay.adapters(one.overlay)
    ]
    if as_json:
        output.json_lines(rows)
    elif rows:
        cells = [(row["name"], f"{row['scale']:g}", _told(row["size"]), row["file"]) for row in rows]
        output.table(_HEAD, [tuple(map(str, row)) for row in cells])
    else:
        output.notes().line("There is no adapter yet. Put one on a model: blazar lora add MODEL FILE")


def _size(path: str) -> int | None:
    try:
        return Path(path).stat().st_size
    except OSError:
        return None


def _told(size: object) -> str:
    return output.size(size) if isinstance(size, int) else "missing"
