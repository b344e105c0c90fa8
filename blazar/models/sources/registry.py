"""Models of a registry that speaks Ollama's protocol: a manifest, and a blob for each of its layers."""

from __future__ import annotations

from pathlib import Path

import msgspec

from blazar.errors import BadRequest, DownloadFailed, NoModelInside
from blazar.models import header, web
from blazar.models.manifest import ACCEPT, Layer, Manifest
from blazar.models.progress import Progress
from blazar.models.reference import Reference, spellings
from blazar.models.sources import Fetched, Means, look_for_gguf
from blazar.models.sources.url import file_name

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_TEXT = 4 * 1024 * 1024


def fetch(wanted: Reference, means: Means) -> Fetched:
    """The model with all that it sets.

    Raises NoModelInside, BadRequest, DownloadFailed, InsufficientStorage.
    """
    meant, manifest, blobs = look_up(wanted, means)
    if manifest.why_not:
        raise NoModelInside(meant.source, f"cannot run here: {manifest.why_not}")
    (weights,), eyes = manifest.of("model"), manifest.of("projector")
    stem = meant.name.replace("/", "-").replace(":", "-")

    def bring(layer: Layer, name: str) -> tuple[Path, str]:
        url = f"{blobs}/sha256:{layer.sha256}"
        got = means.bring(url, name, layer.sha256, lambda first, kind: look_for_gguf(meant.source, first, kind))
        return got.path, got.digest

    def text(layer: Layer) -> str:
        return web.small(f"{blobs}/sha256:{layer.sha256}", limit=_TEXT).decode("utf-8", "replace")

    path, digest = bring(weights, file_name(stem))
    projector = bring(eyes[0], file_name(f"{stem}.mmproj"))[0] if eyes else None
    try:
        overlay = manifest.overlay(text, header.read(path).chat_template)
    except msgspec.DecodeError as error:
        raise DownloadFailed(meant.source, f"what it sets makes no sense ({error})") from error
    adapters = tuple(
        bring(layer, file_name(f"{stem}.adapter{number or ''}"))[0]
        for number, layer in enumerate(manifest.of("adapter"))
    )
    return Fetched((path,), (digest,), meant.name, projector, overlay, adapters)


def look_up(wanted: Reference, means: Means) -> tuple[Reference, Manifest, str]:
    """What of the spellings the registry knows, its manifest, and the address that its blobs are under."""
    base = _base(wanted, means)
    for meant in spellings(wanted):
        means.listener(Progress("resolve", meant.source))
        try:
            found = web.json(f"{base}/v2/{meant.repository}/manifests/{meant.tag}", Manifest, {"Accept": ACCEPT})
        except DownloadFailed as refused:
            if refused.answered in (401, 403):
                raise DownloadFailed(
                    meant.source, "the registry asks for a login; models behind one cannot be pulled"
                ) from refused
            if refused.answered != 404:
                raise
        else:
            return meant, found, f"{base}/v2/{meant.repository}/blobs"
    tried = " or ".join(repr(meant.name) for meant in spellings(wanted))
    raise NoModelInside(base, f"holds no model named {tried}")


def _base(wanted: Reference, means: Means) -> str:
    if not wanted.host:
        return means.settings.registry.rstrip("/")
    if wanted.host not in means.settings.registries:
        raise BadRequest(
            f"'{wanted.host}' is not among the registries that may be pulled from. Allow it: "
            f"blazar config set models.registries {wanted.host}"
        )
    local = wanted.host.rpartition(":")[0] in _LOCAL or wanted.host in _LOCAL
    return f"{'http' if local else 'https'}://{wanted.host}"
