"""Models of a repository on the Hugging Face hub: which of its files is meant, by name or by what fits this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from blazar.errors import DownloadFailed, ModelTooLarge, NoModelInside
from blazar.models import shards
from blazar.models.progress import Progress
from blazar.models.reference import Reference, name_from, quantization_of
from blazar.models.sources import Fetched, Means, look_for_gguf
from blazar.models.sources.url import file_name

if TYPE_CHECKING:
    from huggingface_hub import HfApi

# Without a word from the user: first what most people are best served with, then what is nearest to it.
_PREFERRED = (
    "Q4_K_M", "UD-Q4_K_XL", "Q4_K_S", "IQ4_XS", "IQ4_NL", "Q4_0", "Q4_1", "MXFP4", "MXFP4_MOE", "Q5_K_M", "Q5_K_S",
    "Q5_0", "Q5_1", "Q3_K_L", "Q3_K_M", "IQ3_M", "Q6_K", "Q3_K_S", "IQ3_XS", "Q8_0", "Q2_K", "IQ2_M", "F16", "BF16",
    "F32",
)  # fmt: skip
_EYES = ("F16", "BF16", "Q8_0", "F32")
_ASIDE = re.compile(r"mmproj|imatrix|\bvocab\b|mtp-", re.IGNORECASE)


class Remote(msgspec.Struct, frozen=True):
    """A file of a repository; ``size`` in bytes and ``sha256`` as far as the hub says."""

    path: str
    size: int = 0
    sha256: str = ""


class Choice(msgspec.Struct, frozen=True):
    """One model of a repository: its files in order, and its quantisation as its name says it."""

    quantization: str
    files: tuple[Remote, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


class Repository(msgspec.Struct, frozen=True):
    """What of a repository can run here. ``base`` is the address that its files are under."""

    source: str
    base: str
    headers: Mapping[str, str]
    choices: tuple[Choice, ...]
    projectors: tuple[Choice, ...]

    def url(self, file: Remote) -> str:
        """Where the file is."""
        return f"{self.base}/{quote(file.path)}"


def fetch(wanted: Reference, means: Means) -> Fetched:
    """The model that is meant, with its projector where there is one.

    Raises NoModelInside, ModelTooLarge, DownloadFailed, InsufficientStorage.
    """
    means.listener(Progress("resolve", wanted.source))
    repository = look_up(wanted, means.settings.hub)
    choice = choose(wanted, repository.choices, means.room)
    eyes = _best(repository.projectors, _EYES)
    means = msgspec.structs.replace(means, way=msgspec.structs.replace(means.way, headers=repository.headers))
    got = [_bring(repository, file, means) for file in choice.files]
    projector = _bring(repository, eyes.files[0], means)[0] if eyes is not None else None
    stem = PurePosixPath(choice.files[0].path).stem
    return Fetched(
        tuple(path for path, _ in got),
        tuple(digest for _, digest in got),
        name_from(stem, choice.quantization),
        projector,
    )


def look_up(wanted: Reference, endpoint: str) -> Repository:
    """What the repository holds. Raises NoModelInside, DownloadFailed."""
    api = _api(endpoint)
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 (slow to import)

    try:
        info = api.model_info(wanted.repository, files_metadata=True)
        files = [
            Remote(str(sibling.rfilename), int(sibling.size or 0), str(sibling.lfs.sha256) if sibling.lfs else "")
            for sibling in info.siblings or ()
        ]
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        raise DownloadFailed(wanted.source, _meaning(status, bool(api.token)), status) from error
    except _library_faults() as error:
        raise DownloadFailed(wanted.source, _fault(error)) from error
    choices, projectors = _models(files)
    if not choices:
        kinds = sorted({PurePosixPath(file.path).suffix for file in files} & {".safetensors", ".bin", ".onnx", ".npz"})
        reason = "holds no GGUF file, and no engine that is installed here runs another form"
        raise NoModelInside(wanted.source, reason, [f"files of the kind {kind}" for kind in kinds])
    headers = {"Authorization": f"Bearer {api.token}"} if api.token else {}
    base = f"{api.endpoint}/{wanted.repository}/resolve/main"
    return Repository(wanted.source, base, headers, choices, projectors)


class Found(msgspec.Struct, frozen=True):
    """A repository that a search brought, with the quantisations that its files are named after."""

    repository: str
    downloads: int = 0
    likes: int = 0
    quantizations: tuple[str, ...] = ()


def search(words: str, endpoint: str, limit: int) -> list[Found]:
    """Repositories with GGUF files and the words in their name, the most downloaded first. Raises DownloadFailed."""
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 (slow to import)

    api, found = _api(endpoint), list[Found]()
    try:
        for info in api.list_models(search=words, filter="gguf", sort="downloads", limit=limit, full=True):
            choices, _ = _models([Remote(str(sibling.rfilename)) for sibling in info.siblings or ()])
            quantizations = tuple(dict.fromkeys(choice.quantization for choice in choices if choice.quantization))
            found.append(Found(str(info.id), int(info.downloads or 0), int(info.likes or 0), quantizations))
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        raise DownloadFailed("The list of the hub", f"the hub answered {status}", status) from error
    except _library_faults() as error:
        raise DownloadFailed("The list of the hub", _fault(error)) from error
    return found


def choose(wanted: Reference, choices: Sequence[Choice], room: int) -> Choice:
    """By the file or the quantisation that was named; else the best of those whose weights fit into ``room`` bytes.

    Raises NoModelInside with what there is; ModelTooLarge when not even the smallest fits.
    """
    if wanted.tag:
        tag = wanted.tag.lower()
        named = [one for one in choices if tag in (one.files[0].path.lower(), one.quantization.lower())]
        named = named or [one for one in choices if PurePosixPath(one.files[0].path).name.lower() == tag]
        if len(named) == 1:
            return named[0]
        there = [one.quantization or one.files[0].path for one in choices]
        reason = f"has {'several' if named else 'nothing'} for {wanted.tag!r}"
        raise NoModelInside(wanted.source, reason, [one.files[0].path for one in named] or sorted(set(there)))
    fitting = [one for one in choices if not room or one.size <= room]
    if not fitting:
        smallest = min(choices, key=lambda one: one.size)
        raise ModelTooLarge(wanted.source, smallest.size, room, " at its smallest")
    best = _best(fitting, _PREFERRED)
    assert best is not None
    return best


def _best(choices: Sequence[Choice], order: tuple[str, ...]) -> Choice | None:
    """The first in the order; the smallest of those that are not in it."""

    def rank(choice: Choice) -> tuple[int, int, str]:
        name = choice.quantization.upper()
        return order.index(name) if name in order else len(order), choice.size, choice.files[0].path

    return min(choices, key=rank, default=None)


def _models(files: Sequence[Remote]) -> tuple[tuple[Choice, ...], tuple[Choice, ...]]:
    """The models among the files, and the projectors. A split model that lacks a part is left out."""
    by_path = {file.path: file for file in files if file.path.lower().endswith(".gguf")}
    models, eyes = list[Choice](), list[Choice]()
    for path, file in sorted(by_path.items()):
        pure = PurePosixPath(path)
        names = shards.siblings(pure.name)
        if names[0] != pure.name:
            continue
        parts = [by_path.get(str(pure.with_name(name))) for name in names]
        whole = [part for part in parts if part is not None]
        if len(whole) != len(names):
            continue
        quantization = quantization_of(pure.name) or quantization_of(f"x.{pure.parent.name}")
        if "mmproj" in pure.name.lower():
            eyes.append(Choice(quantization, (file,)))
        elif not _ASIDE.search(pure.name):
            models.append(Choice(quantization, tuple(whole)))
    return tuple(models), tuple(eyes)


def _bring(repository: Repository, file: Remote, means: Means) -> tuple[Path, str]:
    name = file_name(PurePosixPath(file.path).name)
    try:
        got = means.bring(
            repository.url(file), name, file.sha256, lambda first, kind: look_for_gguf(repository.source, first, kind)
        )
    except DownloadFailed as failed:
        if failed.answered in (401, 403):
            reason = _meaning(failed.answered, bool(repository.headers))
            raise DownloadFailed(repository.source, reason, failed.answered) from failed
        raise
    return got.path, got.digest


def _library_faults() -> tuple[type[Exception], ...]:
    """What the library raises where the hub is away, or answers what no hub does."""
    from huggingface_hub import errors  # noqa: PLC0415 (slow to import)

    # The faults of the line are those of the HTTP library that it was built with.
    line: type[Exception] = errors.HTTPError  # type: ignore[attr-defined]
    return line, OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError


def _fault(error: Exception) -> str:
    if isinstance(error, KeyError | TypeError | AttributeError):
        return f"the hub's answer makes no sense ({type(error).__name__}: {error})"
    return f"the hub cannot be reached ({error})"


def _meaning(status: int, known: bool) -> str:
    if status in (401, 403):
        return (
            "the hub refuses access: its terms must be accepted on its page by the account that the token is of"
            if known
            else "there is no such repository, or it asks for a login: put a token into HF_TOKEN"
        )
    return "there is no such repository on the hub" if status == 404 else f"the hub answered {status}"


def _api(endpoint: str) -> HfApi:
    # What the library would tell the hub of this machine, it does not.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import HfApi, get_token  # noqa: PLC0415 (slow to import)

    endpoint = (endpoint or os.environ.get("HF_ENDPOINT", "")).rstrip("/")
    return HfApi(endpoint=endpoint or None, token=get_token() or False, headers={"user-agent": "blazar"})
