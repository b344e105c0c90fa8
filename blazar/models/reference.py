"""Names and places of models: what a person types, read into what it means. Pure."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from blazar.errors import BadRequest

Kind = Literal["name", "pypi", "url", "file", "registry", "hub"]

_SEGMENT = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_NAME = re.compile(rf"(?P<base>{_SEGMENT}(?:/{_SEGMENT})*)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]*))?")
_PACKAGE = re.compile(r"(?P<package>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:==(?P<version>[A-Za-z0-9.!+_-]+))?")
_SHA256 = re.compile(r"sha256=([0-9a-fA-F]{64})")
_LONGEST = 200
_HUB = frozenset({"hf.co", "huggingface.co", "www.huggingface.co"})
_REPOSITORY = re.compile(rf"(?P<repository>{_SEGMENT}/{_SEGMENT})(?:[:/](?P<tag>.+))?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
_REGISTRY = re.compile(
    rf"(?:(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{{1,5}})?)/)?(?P<repository>{_SEGMENT}(?:/{_SEGMENT})?)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]*))?"
)
_PORT = re.compile(r"[A-Za-z0-9.-]+:\d{1,5}")
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_SIZE = re.compile(r"(?P<base>.+)-(?P<size>\d+(?:\.\d+)?[bm])", re.IGNORECASE)


class Reference(msgspec.Struct, frozen=True):
    """What was meant. ``source`` is the one spelling that the catalogue keeps; empty for a plain name.

    Of a registry, ``repository`` is ``NAMESPACE/MODEL`` and ``host`` empty for the usual one; of the hub, it is
    ``OWNER/REPO``, and ``tag`` a quantisation or the path of a file, or empty.
    """

    kind: Kind
    source: str
    name: str = ""
    package: str = ""
    version: str = ""
    url: str = ""
    sha256: str = ""
    path: Path = Path()
    repository: str = ""
    tag: str = ""
    host: str = ""

    @property
    def requirement(self) -> str:
        """The package as pip takes it."""
        return f"{self.package}=={self.version}" if self.version else self.package


def parse(text: str) -> Reference:
    """Read ``pypi:PACKAGE[==VERSION]``, ``hf.co/OWNER/REPO[:QUANT]``, ``ollama:NAME[:TAG]``, an ``http(s)`` URL, a
    path, or a plain name. Raises ``BadRequest``.

    A path is what starts with ``/``, ``./``, ``../``, ``~`` or a Windows drive, or ends in ``.gguf``; ``file:`` before
    it is allowed. ``hf:`` may stand for ``hf.co/``, and ``HOST:PORT/NAMESPACE/NAME`` needs no ``ollama:``.
    """
    text = text.strip()
    scheme, _, rest = text.partition(":")
    scheme = scheme.lower()
    if scheme == "pypi":
        return _package(text)
    if scheme in ("http", "https") and "://" in text:
        return _url(text)
    if scheme in ("hf", "ollama") and not _WINDOWS.match(text):
        return _hub(rest) if scheme == "hf" else _registry(rest)
    host, _, rest = text.partition("/")
    if host.lower() in _HUB:
        return _hub(rest)
    if _PORT.fullmatch(host) and rest:
        return _registry(text)
    if scheme == "file" or is_path(text):
        return _path(text)
    name = check_name(text)
    return Reference("name", "", name=name)


def is_path(text: str) -> bool:
    """It can only mean a file."""
    begins = ("/", "./", "../", "~", ".\\", "..\\")
    return text.startswith(begins) or bool(_WINDOWS.match(text)) or text.lower().endswith(".gguf")


def origin(wanted: Reference) -> Reference:
    """Where a plain name is fetched from: ``OWNER/REPO[:QUANT]`` from the hub; ``NAME[:TAG]``, ``library/NAME[:TAG]``
    and ``HOST/NAMESPACE/NAME[:TAG]`` from a registry. Others are what they were.
    """
    if wanted.kind != "name":
        return wanted
    segments = base(wanted.name).split("/")
    if len(segments) == 2 and segments[0].lower() != "library":
        return _hub(wanted.name)
    return _registry(wanted.name)


def spellings(wanted: Reference) -> tuple[Reference, ...]:
    """What a registry may mean by a name: itself, and where it has no tag, ``qwen3-0.6b`` as ``qwen3:0.6b`` too."""
    found = _SIZE.fullmatch(wanted.repository)
    if wanted.tag != "latest" or found is None:
        return (wanted,)
    return wanted, _of_registry(wanted.host, found["base"], found["size"].lower())


def source_key(source: str) -> str:
    """Sources of one key are one place: hub and registries do not mind the case."""
    return source.lower() if source.startswith(("hf.co/", "ollama:")) else source


def check_name(text: str) -> str:
    """The name, if it can be one: letters, digits, ``.``, ``_``, ``-``, parts split by ``/``, at most one ``:tag``.

    ``#``, ``@`` and ``+`` are left out on purpose: they mark replicas, projectors and adapters of a running model.
    Raises ``BadRequest``.
    """
    if len(text) > _LONGEST:
        raise BadRequest(f"A model name has at most {_LONGEST} characters; this one has {len(text)}.")
    if _NAME.fullmatch(text) is None:
        raise BadRequest(
            f"{text!r} cannot be a model name: it may hold letters, digits, '.', '_' and '-', parts split by '/', and "
            f"one ':tag' at the end."
        )
    return text


def fold(name: str) -> str:
    """The form in which equal names are equal: lower case, and ``:latest`` is the same as no tag."""
    return name.lower().removesuffix(":latest")


def base(name: str) -> str:
    """The name without its tag."""
    return name.rpartition(":")[0] if ":" in name else name


def name_from(stem: str, quantization: str = "") -> str:
    """A pleasant name from a file's stem: ``SmolLM2-135M-Instruct.Q4_1`` is ``smollm2-135m-instruct:q4_1``.

    ``quantization`` becomes the tag when the stem does not end in one. What a name may not hold becomes ``-``.
    """
    stem = _stem(stem)
    found = _QUANTIZATION.search(stem)
    tag = found["quant"] if found else quantization
    slug = _slug(stem[: found.start()] if found and found.start() else stem)
    tag = _slug(tag).replace("-", "_")
    name = slug[: _LONGEST // 2] or "model"
    return f"{name}:{tag[:40]}" if tag else name


def quantization_of(name: str) -> str:
    """The quantisation that a file's name ends in, in upper case; or nothing."""
    stem = _stem(name)
    found = _QUANTIZATION.search(stem) or _QUANTIZATION.fullmatch(f".{stem}")
    return found["quant"].upper() if found else ""


_QUANTIZATION = re.compile(
    r"[.\-_](?P<quant>(?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32))$", re.IGNORECASE
)


def _stem(name: str) -> str:
    """Without its ending, and without the number of a shard."""
    return re.sub(r"-\d{5}-of-\d{5}$", "", re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE))


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9._-]+", "-", plain)).strip("-._")


def _package(text: str) -> Reference:
    match = _PACKAGE.fullmatch(text.partition(":")[2].strip())
    if match is None:
        raise BadRequest(f"{text!r} names no package. The form is pypi:PACKAGE or pypi:PACKAGE==VERSION.")
    package, version = re.sub(r"[-_.]+", "-", match["package"]).lower(), match["version"] or ""
    source = f"pypi:{package}=={version}" if version else f"pypi:{package}"
    return Reference("pypi", source, package=package, version=version)


def _url(text: str) -> Reference:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadRequest(f"{text!r} is not a URL: {error}.") from error
    if not host:
        raise BadRequest(f"{text!r} is not a URL: it names no host.")
    if parts.username is not None or parts.password is not None:
        raise BadRequest(
            "A URL to pull from may not carry a user name or password: it is kept and shown as the source."
        )
    if (page := _page(host, parts.path)) is not None and not parts.fragment:
        return page
    if re.search(r"[\x00-\x20\x7f]", text):
        raise BadRequest(f"{text!r} is not a URL: it holds a space or a control character.")
    sha256 = _SHA256.fullmatch(parts.fragment)
    if parts.fragment and sha256 is None:
        raise BadRequest("After '#' a URL to pull from may only carry 'sha256=' and 64 hex digits.")
    netloc = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    url = urlunsplit((parts.scheme.lower(), netloc, parts.path or "/", parts.query, ""))
    return Reference("url", url, url=url, sha256=sha256[1].lower() if sha256 else "")


def _hub(text: str) -> Reference:
    """``OWNER/REPO``, with ``:QUANT`` or the path of a file."""
    found = _REPOSITORY.fullmatch(text.strip().strip("/"))
    tag = found["tag"] or "" if found else ""
    if found is None or (tag and _TAG.fullmatch(tag) is None):
        raise BadRequest(
            f"{text!r} names nothing on the hub. The form is hf.co/OWNER/REPO or hf.co/OWNER/REPO:QUANT, as in "
            f"hf.co/OWNER/REPO:Q4_K_M."
        )
    tag = "" if tag.lower() == "latest" else tag
    tag = tag if tag.lower().endswith(".gguf") else tag.upper()
    source = f"hf.co/{found['repository']}" + (f":{tag}" if tag else "")
    return Reference("hub", source, repository=found["repository"], tag=tag)


def _registry(text: str) -> Reference:
    """``[[HOST/]NAMESPACE/]MODEL[:TAG]``; a host is only read where a namespace follows."""
    found = _REGISTRY.fullmatch(text.strip())
    host = found["host"] or "" if found else ""
    if found is not None and host and "/" not in found["repository"]:  # NAMESPACE/MODEL, then
        if ":" in host:
            found = None
        else:
            return _of_registry("", f"{host}/{found['repository']}", found["tag"] or "latest")
    if found is None or len(text) > _LONGEST:
        raise BadRequest(
            f"{text!r} names nothing in a registry. The form is MODEL[:TAG], NAMESPACE/MODEL[:TAG] or "
            f"HOST/NAMESPACE/MODEL[:TAG]."
        )
    return _of_registry(host, found["repository"], found["tag"] or "latest")


def _of_registry(host: str, repository: str, tag: str) -> Reference:
    repository = repository if "/" in repository else f"library/{repository}"
    short = repository.removeprefix("library/")
    place = f"{host}/{repository}" if host else short
    return Reference(
        "registry", f"ollama:{place}:{tag}", name=f"{short}:{tag}", repository=repository, tag=tag, host=host
    )


def _page(host: str, path: str) -> Reference | None:
    """What a page of the hub that somebody copied from a browser is about."""
    parts = [part for part in unquote(path).split("/") if part]
    if host.lower() not in _HUB or len(parts) < 2 or parts[0] in ("datasets", "spaces", "api"):
        return None
    # OWNER/REPO/{blob,resolve,tree}/REVISION/FILE: what is on the main line.
    deeper = parts[2:3] and parts[2] in ("blob", "resolve", "tree")
    if deeper and parts[3:4] not in (["main"], []):
        return None
    return _hub("/".join([*parts[:2], *(parts[4:] if deeper else [])]))


def _path(text: str) -> Reference:
    text = re.sub(r"^file:(//(?=/))?", "", text, flags=re.IGNORECASE)
    if not text or "\0" in text:
        raise BadRequest("An empty path names no file.")
    if _WINDOWS.match(text) and os.name != "nt":
        raise BadRequest(f"{text!r} is a path of Windows, and this is another system.")
    try:
        path = Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise BadRequest(f"{text!r} cannot be read as a path: {error}.") from error
    # '..' is folded by text alone: the catalogue must find the same file by the same words, whether it is there or not.
    parts: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            del parts[-1:]
        else:
            parts.append(part)
    path = Path("/", *parts)
    return Reference("file", f"file:{path}", path=path)
