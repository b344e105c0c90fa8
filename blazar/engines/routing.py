"""Which build runs a model, and why no other: pure functions of the model's facts and of what is installed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from blazar.engines.base import Adapter, Build
from blazar.errors import ModelUnsupportedEngine

if TYPE_CHECKING:
    from blazar.models.catalogue import Model

_CHANNELS = ("local", "release", "pypi", "source")
_CURES = {
    "gguf": "Install one: pip install 'blazar[llamacpp]', or blazar engine install llamacpp.",
}
# What each kind takes; those without an adapter are not driven yet.
KINDS = {
    "llamacpp": ("gguf",),
    "mistralrs": ("gguf", "safetensors"),
    "sglang": ("safetensors", "awq", "gptq", "fp8"),
    "mlx": ("mlx",),
    "sdcpp": ("diffusion",),
    "whisper": ("whisper",),
    "piper": ("piper",),
}


class Candidate(msgspec.Struct, frozen=True):
    """A build, or a kind without one (then ``tag`` is empty), and what it lacks to be the one; nothing where it is."""

    kind: str
    tag: str
    lacks: str = ""


class Explanation(msgspec.Struct, frozen=True):
    """``tag`` of ``kind`` runs the model because of ``why``; both are empty where nothing can, and ``why`` says what to
    do.
    """

    kind: str
    tag: str
    why: str
    candidates: tuple[Candidate, ...]


def choose(
    model: Model, builds: Sequence[Build], adapters: Iterable[Adapter], channel: str = "auto"
) -> tuple[Adapter, Build]:
    """The build that runs ``model``: the active one of its kind, else a local one, else a release, else a
    wheel.

    ``channel`` other than ``auto`` leaves only that channel. Raises ModelUnsupportedEngine with the command that cures
    it.
    """
    able = [adapter for adapter in adapters if model.format in adapter.formats]
    if not able:
        raise ModelUnsupportedEngine(model.name, f"no engine here takes the format {model.format}", "")
    for adapter in able:
        candidates = [build for build in builds if build.kind == adapter.kind and channel in {"auto", build.channel}]
        if candidates:
            return adapter, preferred(candidates)
    kinds = ", ".join(adapter.kind for adapter in able)
    if channel == "auto":
        reason, cure = f"{kinds} is not installed", _CURES.get(model.format, "")
    elif channel == "local":
        reason = f"{kinds} has no build in the channel 'local'"
        cure = "Set engine.llamacpp_path to the path of a llama-server, or engine.llamacpp_channel to auto."
    else:
        reason, cure = f"{kinds} has no build in the channel '{channel}'", _CURES.get(model.format, "")
    raise ModelUnsupportedEngine(model.name, reason, cure)


def explain(model: Model, builds: Sequence[Build], adapters: Sequence[Adapter], channel: str = "auto") -> Explanation:
    """What :func:`choose` does with these arguments, in words."""
    try:
        adapter, chosen = choose(model, builds, adapters, channel)
    except ModelUnsupportedEngine as fault:
        return Explanation("", "", fault.message, tuple(_others(model, builds, adapters, channel, None)))
    return Explanation(
        adapter.kind, chosen.tag, _why(model, chosen, channel), tuple(_others(model, builds, adapters, channel, chosen))
    )


def preferred(builds: Sequence[Build]) -> Build:
    """Of builds of one kind the one that is used: the active one, else a local one, else a release, else a
    wheel; one that was compiled here is used when that was asked for, and where there is no other.
    """
    return min(builds, key=_rank)


def _rank(build: Build) -> tuple[bool, int]:
    order = _CHANNELS.index(build.channel) if build.channel in _CHANNELS else len(_CHANNELS)
    return not build.active, order


def _why(model: Model, chosen: Build, channel: str) -> str:
    takes = f"{chosen.kind} takes the format {model.format}"
    if channel != "auto":
        return f"{takes}, and engine.llamacpp_channel wants the channel '{channel}'"
    if chosen.active:
        return f"{takes}, and of its builds this one was chosen (blazar engine use)"
    if chosen.channel == "local":
        return f"{takes}, and engine.llamacpp_path names this build"
    return f"{takes}, and this is the first of its builds"


def _others(
    model: Model, builds: Sequence[Build], adapters: Sequence[Adapter], channel: str, chosen: Build | None
) -> Iterable[Candidate]:
    driven = {adapter.kind: adapter for adapter in adapters}
    for build in builds:
        if chosen is not None and build.tag == chosen.tag and build.kind == chosen.kind:
            yield Candidate(build.kind, build.tag)
        elif model.format not in driven[build.kind].formats:
            yield Candidate(build.kind, build.tag, f"it does not take the format {model.format}")
        elif channel not in {"auto", build.channel}:
            yield Candidate(build.kind, build.tag, f"it is of the channel '{build.channel}'")
        else:
            yield Candidate(build.kind, build.tag, "another build is used: blazar engine use " + build.tag)
    for kind, formats in KINDS.items():
        if any(build.kind == kind for build in builds):
            continue
        if model.format not in formats:
            yield Candidate(kind, "", f"it does not take the format {model.format}")
        elif kind in driven:
            yield Candidate(kind, "", f"it is not installed: blazar engine install {kind}")
        else:
            yield Candidate(kind, "", "Blazar does not drive it yet")
