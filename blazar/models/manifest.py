"""What Ollama's registry and its store on disk say of a model: a manifest that names layers by kind and digest."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from blazar.models import overlay as overlays
from blazar.models.overlay import Overlay, Said

ACCEPT = "application/vnd.docker.distribution.manifest.v2+json"
_KIND = re.compile(r"application/vnd\.ollama\.image\.(\w+)")
_DIGEST = re.compile(r"(?:sha256[:-])?([0-9a-f]{64})")


class Layer(msgspec.Struct, frozen=True):
    """One of a model's files. ``size`` is in bytes."""

    mediaType: str = ""  # noqa: N815  (the registry's word)
    digest: str = ""
    size: int = 0

    @property
    def sha256(self) -> str:
        """The 64 hex digits."""
        found = _DIGEST.fullmatch(self.digest)
        return found[1] if found else ""


class Manifest(msgspec.Struct, frozen=True):
    """All layers of a model."""

    layers: list[Layer] = []

    def of(self, kind: str) -> list[Layer]:
        """The layers of that kind (``model``, ``projector``, ``template`` and so on) whose digest can be one."""
        return [
            layer
            for layer in self.layers
            if (found := _KIND.match(layer.mediaType)) and found[1] == kind and layer.sha256
        ]

    @property
    def why_not(self) -> str:
        """Why it cannot run here; nothing where it can."""
        models = self.of("model")
        if not models and self.of("tensor"):
            return "its weights are in a form of Ollama's own engine"
        if not models:
            return "it has no weights of its own (a cloud model)"
        return "its weights are in parts" if len(models) > 1 else ""

    def overlay(self, text: Callable[[Layer], str], own_template: str | None) -> Overlay:
        """What it sets over the model's own, read by ``text``. A template of the model's own does more than one in
        Ollama's language, which is not taken then: it knows tools. Raises msgspec.DecodeError, BadRequest.
        """

        def first(kind: str) -> str:
            return "".join(text(layer) for layer in self.of(kind)[:1])

        parameters = msgspec.json.decode(first("params") or "{}", type=dict[str, object])
        return Overlay(
            template="" if own_template else first("template"),
            system=first("system"),
            parameters=overlays.checked({key: value for key, value in parameters.items() if value is not None}),
            messages=msgspec.json.decode(first("messages") or "[]", type=list[Said]),
            license=[text(layer) for layer in self.of("license")],
        )
