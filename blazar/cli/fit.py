"""``blazar fit``: whether a model fits this machine, before any of it is fetched."""

from __future__ import annotations

import click

from blazar.cli import output
from blazar.cli.completions import ModelName
from blazar.cli.place import here
from blazar.client.types import Choice

_HEAD = ("", "QUANT", "SIZE", "FITS", "NEEDS", "CONTEXT", "SLOTS", "TOKENS/S")
_RIGHT = frozenset({"SIZE", "NEEDS", "CONTEXT", "SLOTS", "TOKENS/S"})


@click.command()
@click.argument("target", type=ModelName())
@click.option("--context", type=click.IntRange(1), default=None, help="Tokens that a conversation is to have at least.")
@click.option("--cache-type", default="", help="Element type of the KV cache, as in q8_0; from the settings otherwise.")
@output.json_option
def fit(target: str, context: int | None, cache_type: str, as_json: bool) -> int:
    """Say in which quantisations TARGET fits this machine. Only its header is fetched.

    TARGET is a model that is here, or what blazar pull takes from the registry, the hub or an address. Ends with 1 when
    nothing fits.
    """
    from blazar.cli.run import daemon  # noqa: PLC0415 (what talks is slow to import)

    plan = daemon(*here()).fit(target, context or 0, cache_type)
    best = next((choice for choice in plan.choices if choice.recommended), None)
    if as_json:
        output.json_lines(plan.choices)
        return int(best is None)
    output.table(_HEAD, [_row(choice) for choice in plan.choices], _RIGHT)
    notes = output.notes()
    gpus = f" and {output.size(sum(plan.gpus.values()))} of GPUs" if plan.gpus else ""
    notes.line(f"For {output.size(plan.memory)} of memory{gpus}, with a cache of {plan.cache_type}.")
    if not all(choice.exact for choice in plan.choices):
        notes.line("~ reckoned from the sizes of the files.")
    if best is None:
        notes.line("Nothing of it fits. A smaller model will; a cache of q8_0 halves what a context takes.")
    elif not best.here:
        notes.line(f"Fetch the best of them: blazar pull {best.target}")
    return int(best is None)


def _row(choice: Choice) -> tuple[str, ...]:
    where = {
        "gpu": "on a GPU",
        "gpus": "on GPUs",
        "partly": f"{choice.layers} of {choice.of} layers on GPUs",
        "memory": "in memory",
        "no": "no",
    }
    lost = choice.fits == "no"
    return (
        "*" if choice.recommended else "",
        choice.quantization or "-",
        output.size(choice.size),
        where.get(choice.fits, choice.fits),
        ("" if choice.exact else "~") + output.size(choice.need),
        "-" if lost else str(choice.context),
        "-" if lost else f"{choice.slots} of {choice.each}",
        f"{choice.speed:.0f}" if choice.speed is not None else "-",
    )
