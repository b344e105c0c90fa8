"""``blazar explain``: which build runs a model and why, and what each other one lacks."""

from __future__ import annotations

import click

from blazar.cli import output
from blazar.cli.completions import ModelName
from blazar.cli.place import here


@click.command()
@click.argument("model", type=ModelName())
@output.json_option
def explain(model: str, as_json: bool) -> int:
    """Say which engine runs MODEL and why, what each other one lacks, and where MODEL goes.

    Ends with 1 when none can run it.
    """
    from blazar.cli.run import daemon  # noqa: PLC0415 (what talks is slow to import)

    told = daemon(*here()).explain(model)
    if as_json:
        output.json_lines([told])
        return int(not told.tag)
    card = [("runs with", f"{told.tag} ({told.kind})" if told.tag else "nothing"), ("because", told.why)]
    if told.place is not None:
        known = "as it was measured" if told.place.measured else "as planned"
        card += [("place", told.place.why), ("takes", f"{output.size(told.place.need)}, {known}")]
    output.card(card)
    others = [(one.tag or "-", one.kind, one.lacks) for one in told.candidates if one.lacks]
    if others:
        click.echo()
        output.table(("NOT", "KIND", "BECAUSE"), others)
    return int(not told.tag)
