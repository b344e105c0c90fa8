"""``blazar session``: what an engine has read, on disk and back."""

from __future__ import annotations

import time
from datetime import datetime

import click

from blazar.cli import output
from blazar.cli.completions import ModelName
from blazar.cli.place import client, here

_HEAD = ("NAME", "TOKENS", "SLOTS", "SIZE", "CONTEXT", "CACHE", "BUILD", "SAVED")
_RIGHT = frozenset({"TOKENS", "SLOTS", "SIZE", "CONTEXT"})


@click.group()
def session() -> None:
    """Save what a model has read of its conversations, and give it back later, so that it need not read it again."""


@session.command()
@click.argument("model", type=ModelName())
@click.argument("name")
@output.json_option
def save(model: str, name: str, as_json: bool) -> None:
    """Save what MODEL holds now under NAME, in place of what had that name."""
    done = client(*here()).checkpoint("save", model, name)
    if as_json:
        output.json_lines([done])
    else:
        output.notes().line(f"Saved {done.tokens} tokens of {done.model} as {name} ({output.size(done.size)}).")


@session.command()
@click.argument("model", type=ModelName())
@click.argument("name")
@output.json_option
def restore(model: str, name: str, as_json: bool) -> None:
    """Give MODEL what was saved under NAME; it is loaded if need be."""
    done = client(*here()).checkpoint("restore", model, name)
    if as_json:
        output.json_lines([done])
    else:
        output.notes().line(f"{done.model} has the {done.tokens} tokens of {name} again.")


@session.command("rm")
@click.argument("model", type=ModelName())
@click.argument("name")
def remove(model: str, name: str) -> None:
    """Remove what was saved of MODEL under NAME."""
    client(*here()).remove_checkpoint(model, name)
    output.notes().line(f"Removed {name} of {model}.")


@session.command("list")
@click.argument("model", type=ModelName())
@output.json_option
def list_(model: str, as_json: bool) -> None:
    """List what was saved of MODEL. What has no name was saved by itself when it left, for the sessions that it had."""
    rows = client(*here()).checkpoints(model)
    if as_json:
        output.json_lines(rows)
    elif rows:
        cells = [
            (
                row.name or "-",
                str(row.tokens),
                str(row.slots),
                output.size(row.size),
                str(row.context),
                row.cache_type,
                row.build,
                output.ago(time.time() - datetime.fromisoformat(row.saved_at).timestamp()),
            )
            for row in rows
        ]
        output.table(_HEAD, cells, _RIGHT)
    else:
        output.notes().line(f"Nothing of {model} was saved.")


session.add_command(list_, "ls")
