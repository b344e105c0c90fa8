"""A model in a smaller quantisation, made by llama.cpp's own tool and kept only where it still reads well.

How well is told by perplexity: how little each next token of a text surprises the model, before and after.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from blazar import hardware
from blazar.engines.install.child import Failed, Tell, run, said
from blazar.errors import BadRequest, NotFound, ToolFailed
from blazar.models import overlay as overlays
from blazar.models import reference
from blazar.models.files import ensure_room, sha256_of
from blazar.models.progress import Progress
from blazar.models.sources import Fetched

if TYPE_CHECKING:
    from blazar.engines.base import Build
    from blazar.models.catalogue import Model
    from blazar.models.library import Library

TOOL, JUDGE = "llama-quantize", "llama-perplexity"
LOSS = 0.1
"""A model whose perplexity grows by more than this part is not kept."""
_WHOLE = frozenset({"F32", "F16", "BF16"})
_CONTEXT, _CHUNKS = 512, 8
_TEXT_BYTES = 64_000
# The tool's help: a number (or none, for another name of the same), the name, what it costs.
_TYPE = re.compile(r"^ +(?:\d+ +or +)?([A-Z][A-Z0-9_]+) *: ", re.MULTILINE)
_STEP = re.compile(r"\[ *(\d+)/ *(\d+)\]")
_CHUNK = re.compile(r"\[(\d+)\][\d.]+,")
_ESTIMATE = re.compile(r"Final estimate: PPL = ([\d.]+)")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """``type`` as in ``Q4_K_M``. ``name`` is the new model's, else that of ``model`` with the type as its tag.
    ``again`` allows a model that is quantised already, ``imatrix`` is a file of what matters in it. Without ``gate``
    nothing is measured; ``loss`` is the most that the perplexity may grow, as a part of it, over ``text`` (a file),
    else over a text that Python brings along.
    """

    type: str
    name: str = ""
    again: bool = False
    imatrix: str = ""
    gate: bool = True
    loss: float = LOSS
    text: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """The new model; sizes in bytes; perplexities are 0 where they were not measured."""

    model: str
    size: int
    before_size: int
    perplexity: float = 0
    before_perplexity: float = 0


def quantize(library: Library, model: Model, wanted: Wanted, builds: Sequence[Build], tell: Tell) -> Outcome:
    """Make the model that is ``wanted`` of ``model``. Blocks; an exception out of ``tell`` ends it, and nothing stays.

    Raises BadRequest, Conflict, InsufficientStorage; NotFound where no build brings the tool; ToolFailed when the
    new one reads worse than it may, or the tool fails, with its last words.
    """
    tool = find_tool(builds, TOOL)
    kind = _checked(tool, model, wanted)
    name = reference.check_name(wanted.name or f"{reference.base(model.name)}:{kind.lower()}")
    library.ensure_free(name)
    source = Path(model.files[0])
    with library.making(f"quantize:{name}", lambda: tell(f"for another that makes {name}")) as folder:
        ensure_room(folder, model.size, name)
        target = folder / f"{reference.base(model.name).rpartition('/')[2]}.{kind}.gguf"
        how = ["--allow-requantize"] if wanted.again else []
        how += ["--imatrix", wanted.imatrix] if wanted.imatrix else []
        how += [str(source), str(target), kind, str(hardware.usable_cores())]
        _run(tool, how, tell, f"{name}: %s written", _share)
        before, after = _judge(builds, model, target, wanted, folder, tell)
        if before and after > before * (1 + wanted.loss):
            raise ToolFailed(
                f"As {kind}, {model.name} reads worse than it may: its perplexity goes from {before:.2f} to "
                f"{after:.2f} ({after / before - 1:+.1%}, at most {wanted.loss:+.1%}). It is not kept; allow more "
                "(--max-loss), or measure nothing (--no-gate)."
            )
        digest = sha256_of(target, lambda step: tell(f"{name}: {_done(step)} checked"))
        kept = library.keep(
            f"quantize:{model.digest}:{kind}",
            Fetched(files=(target,), digests=(digest,), name=name, overlay=overlays.read(model.overlay)),
        )
    if model.projector:
        kept = library.attach(kept.name, Path(model.projector))
    return Outcome(kept.name, kept.size, model.size, after, before)


def find_tool(builds: Sequence[Build], name: str) -> Path:
    """The tool ``name`` of the first build that brings it. Raises NotFound with what to do."""
    for build in builds:
        for program in (Path(build.path), Path(build.path).resolve()):
            if build.channel != "pypi" and (tool := program.with_name(name)).is_file():
                return tool
    raise NotFound(
        f"{name} beside any build of llama.cpp: wheels bring no tools (blazar engine install llamacpp --channel "
        "release, or blazar engine build)"
    )


def _checked(tool: Path, model: Model, wanted: Wanted) -> str:
    """The type as the tool writes it. Raises BadRequest."""
    kind, known = wanted.type.upper(), _types(tool)
    if kind not in known:
        raise BadRequest(
            f"'{wanted.type}' is none of the types that this build makes: {', '.join(known)}.", param="type"
        )
    if model.quantization.upper() not in _WHOLE and not wanted.again:
        raise BadRequest(
            f"'{model.name}' is quantised already ({model.quantization}), and once more costs quality twice. Take one "
            "in F16, or allow it (--allow-requantize).",
            param="again",
        )
    for param, path in (("imatrix", wanted.imatrix), ("text", wanted.text)):
        if path and not Path(path).is_file():
            raise BadRequest(f"There is no file at {path}.", param=param)
    return kind


def _types(tool: Path) -> tuple[str, ...]:
    try:
        told = said([str(tool), "--help"], env=_environment())
    except OSError as error:
        raise ToolFailed(f"{tool} does not answer: {error}") from None
    _, _, listed = told.partition("allowed quantization types")
    return tuple(name for name in _TYPE.findall(listed) if name != "COPY")


def _judge(
    builds: Sequence[Build], model: Model, target: Path, wanted: Wanted, folder: Path, tell: Tell
) -> tuple[float, float]:
    """The perplexities before and after; zeros where nothing is measured."""
    if not wanted.gate or "completion" not in model.capabilities:
        return 0.0, 0.0
    judge = find_tool(builds, JUDGE)
    text = Path(wanted.text) if wanted.text else _text(folder)
    context = min(_CONTEXT, model.context_length or _CONTEXT)
    found = []
    for path, which in ((Path(model.files[0]), "before"), (target, "after")):
        arguments = ["-m", str(path), "-f", str(text), "-c", str(context), "--chunks", str(_CHUNKS), "-ngl", "0"]
        arguments += ["-t", str(hardware.usable_cores())]
        told = _run(judge, arguments, tell, f"how well it reads {which}, %s", _read)
        estimate = _ESTIMATE.search(told)
        if estimate is None:
            raise ToolFailed(f"{JUDGE} says no perplexity of {path.name}; without measuring: --no-gate")
        found.append(float(estimate[1]))
    return found[0], found[1]


def _text(folder: Path) -> Path:
    """Some English that every Python brings: the help on its own language."""
    try:
        from pydoc_data.topics import topics  # noqa: PLC0415 (large)
    except ImportError:
        raise BadRequest("This Python brings no text to measure with; name one (--text FILE).", param="text") from None
    path = folder / "text"
    path.write_text("\n".join(topics.values())[:_TEXT_BYTES])
    return path


def _run(tool: Path, arguments: Sequence[str], tell: Tell, what: str, share: Callable[[str], str]) -> str:
    """``what`` has a place for the share that is done."""
    try:
        return run(tool.name, [str(tool), *arguments], tell, lambda words: what % share(words), env=_environment())
    except Failed as failed:
        raise ToolFailed(str(failed)) from failed


def _environment() -> dict[str, str]:
    """GPUs are for the models that run; these tools take their time on the processor."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {"PATH": os.defpath, "CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1", **kept}


def _share(words: str) -> str:
    steps = _STEP.findall(words)
    return f"{100 * int(steps[-1][0]) // max(1, int(steps[-1][1]))} %" if steps else "0 %"


def _read(words: str) -> str:
    chunks = _CHUNK.findall(words)
    return f"{100 * int(chunks[-1]) // _CHUNKS} %" if chunks else "0 %"


def _done(step: Progress) -> str:
    return f"{100 * step.done // step.total} %" if step.total else "0 %"
