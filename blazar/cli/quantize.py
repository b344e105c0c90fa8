"""``blazar quantize``: a smaller model of one that is here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from blazar.cli import output
from blazar.cli.completions import ModelName
from blazar.cli.place import here
from blazar.cli.progress import Steps

if TYPE_CHECKING:
    from blazar.client.types import QuantizeStep

_file = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)


@click.command()
@click.argument("model", type=ModelName())
@click.argument("type_", metavar="TYPE")
@click.option("--name", default="", help="The new model's name; otherwise MODEL's with the type as its tag.")
@click.option("--allow-requantize", "again", is_flag=True, help="Of a model that is quantised already.")
@click.option("--imatrix", type=_file, help="A file of what matters in the model (llama.cpp's imatrix).")
@click.option("--text", type=_file, help="What is read to measure; otherwise a text that Python brings.")
@click.option(
    "--max-loss",
    type=click.FloatRange(0, 10_000),
    default=10.0,
    show_default=True,
    help="The most that the perplexity may grow, in percent.",
)
@click.option("--no-gate", is_flag=True, help="Measure nothing, keep it as it is.")
def quantize(
    model: str,
    type_: str,
    name: str,
    again: bool,
    imatrix: Path | None,
    text: Path | None,
    max_loss: float,
    no_gate: bool,
) -> None:
    """Make a smaller model of MODEL, of the quantisation TYPE (such as Q4_K_M).

    It takes a build of llama.cpp that brings the tools: a release (blazar engine install llamacpp --channel release) or
    one that was compiled here (blazar engine build). Both models read a text, and the new one is only kept where its
    perplexity is not much above.
    """
    from blazar.cli.run import daemon  # noqa: PLC0415 (what talks is slow to import)

    files = {key: str(path) for key, path in (("imatrix", imatrix), ("text", text)) if path is not None}
    with Steps(output.notes()) as steps:
        for step in daemon(*here()).quantize(
            model, type_, name=name, again=again, gate=not no_gate, loss=max_loss / 100, **files
        ):
            if step.what:
                steps(f"{step.status.capitalize()} {step.what}")
    output.notes().line(_told(step))


def _told(step: QuantizeStep) -> str:
    sizes = f"{output.size(step.size)}, {step.size / max(1, step.before_size):.0%} of what it was"
    if not step.perplexity:
        return f"Ready: {step.model} ({sizes}). Talk to it: blazar run {step.model}"
    change = f"perplexity {step.perplexity:.2f}, {step.before_perplexity:.2f} before"
    return f"Ready: {step.model} ({sizes}; {change}). Talk to it: blazar run {step.model}"
