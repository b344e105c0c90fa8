"""What a source has, without fetching it: sizes from its listing, the header from the first bytes of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import msgspec
from urllib3.exceptions import HTTPError

from blazar.errors import BadRequest, DownloadFailed
from blazar.models import header, web
from blazar.models.header import Header
from blazar.models.reference import Reference
from blazar.models.sources import Means, hub, registry
from blazar.models.web import Again

_FIRST = 1 << 20
_LARGEST = 64 << 20


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A model that could be pulled as ``target``, or is ``here``. ``size`` and ``projector`` are bytes of files;
    ``exact`` is false where the header is another quantisation's, with its sizes stretched.
    """

    target: str
    quantization: str
    size: int
    header: Header
    projector: int = 0
    exact: bool = True
    here: bool = False


def candidates(wanted: Reference, means: Means) -> list[Candidate]:
    """All that may be meant, the smallest first. Only one header is read: a repository's models differ in little else
    than the size of their numbers.

    Raises NoModelInside, BadRequest, BadModelFile, DownloadFailed.
    """
    if wanted.kind == "registry":
        return [_of_registry(wanted, means)]
    if wanted.kind == "hub":
        return _of_hub(wanted, means)
    if wanted.kind == "url":
        facts = _read([(wanted.url, PurePosixPath(wanted.url).name, 0)], {})
        return [_of_url(wanted, facts)]
    raise BadRequest("Only models of the registry, of the hub and at an address can be judged before they are here.")


def _of_registry(wanted: Reference, means: Means) -> Candidate:
    meant, manifest, blobs = registry.look_up(wanted, means)
    if manifest.why_not:
        raise BadRequest(f"{meant.source} cannot run here: {manifest.why_not}.")
    (weights,), eyes = manifest.of("model"), manifest.of("projector")
    facts = _read([(f"{blobs}/sha256:{weights.sha256}", meant.name, weights.size)], {})
    return Candidate(
        target=meant.name,
        quantization=facts.quantization,
        size=weights.size,
        header=facts,
        projector=sum(layer.size for layer in eyes),
    )


def _of_hub(wanted: Reference, means: Means) -> list[Candidate]:
    repository = hub.look_up(wanted, means.settings.hub)
    choices = repository.choices
    if wanted.tag:
        choices = (hub.choose(wanted, choices, 0),)
    model = hub.choose(msgspec.structs.replace(wanted, tag=""), choices, 0)
    facts = _read([(repository.url(file), file.path, file.size) for file in model.files], repository.headers)
    projector = min((eyes.size for eyes in repository.projectors), default=0)
    found = [
        Candidate(
            target=f"{wanted.repository}:{choice.quantization or choice.files[0].path}",
            quantization=choice.quantization or facts.quantization,
            size=choice.size,
            header=facts if choice is model else _stretched(facts, choice.size / max(model.size, 1)),
            projector=projector,
            exact=choice is model,
        )
        for choice in choices
    ]
    return sorted(found, key=lambda one: one.size)


def _of_url(wanted: Reference, facts: Header) -> Candidate:
    size = facts.tensor_bytes
    return Candidate(target=wanted.source, quantization=facts.quantization, size=size, header=facts)


def _read(files: Sequence[tuple[str, str, int]], headers: Mapping[str, str]) -> Header:
    """The header over all parts: address, name and size of each; a size of 0 is asked for."""
    fronts = [_front(url, name, size, _FIRST, headers) for url, name, size in files]
    while True:
        try:
            return header.parse(fronts)
        except header.Short as short:
            place = next(at for at, (_, name, _) in enumerate(files) if name == short.name)
            name, front, size = fronts[place]
            if len(front) >= _LARGEST:
                raise DownloadFailed(name, f"its header goes on behind {_LARGEST} bytes") from None
            fronts[place] = _front(files[place][0], name, size, 2 * len(front), headers)


def _front(url: str, name: str, size: int, count: int, headers: Mapping[str, str]) -> tuple[str, bytes, int]:
    try:
        answer = web.ask(url, {**headers, "Range": f"bytes=0-{count - 1}"})
        try:
            front = b""
            while len(front) < count and (piece := answer.read(count - len(front))):
                front += piece
        finally:
            answer.close()
    except Again as again:
        raise DownloadFailed(url, again.reason) from again
    except (HTTPError, OSError) as error:
        raise DownloadFailed(url, f"the connection was cut ({web.words(error)})") from error
    told = answer.headers.get("Content-Range", "").rpartition("/")[2] or answer.headers.get("Content-Length", "")
    return name, front, size or (int(told) if told.isdigit() else len(front))


def _stretched(facts: Header, by: float) -> Header:
    return msgspec.structs.replace(
        facts,
        tensor_bytes=int(facts.tensor_bytes * by),
        layer_bytes=tuple(int(size * by) for size in facts.layer_bytes),
        embedding_bytes=int(facts.embedding_bytes * by),
        expert_bytes=int(facts.expert_bytes * by),
    )
