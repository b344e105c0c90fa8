"""Which build runs a model: a pure function of the model's facts and of what is installed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from blazar.engines.base import Adapter, Build
from blazar.errors import ModelUnsupportedEngine

if TYPE_CHECKING:
    from blazar.models.catalogue import Model

_CHANNELS = ("local", "pypi")
_CURES = {
    "gguf": "Install one: pip install 'blazar[llamacpp]', or blazar engine install llamacpp.",
}


def choose(
    model: Model, builds: Sequence[Build], adapters: Iterable[Adapter], channel: str = "auto"
) -> tuple[Adapter, Build]:
    """The build that runs ``model``: the active one of its kind, else a local one, else a wheel.

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


def preferred(builds: Sequence[Build]) -> Build:
    """Of builds of one kind the one that is used: the active one, else a local one, else a wheel."""
    return min(builds, key=_rank)


def _rank(build: Build) -> tuple[bool, int]:
    order = _CHANNELS.index(build.channel) if build.channel in _CHANNELS else len(_CHANNELS)
    return not build.active, order
