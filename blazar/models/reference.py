"""Names and places of models: what a person types, read into what it means. Pure."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec

from blazar.errors import BadRequest

Kind = Literal["name", "pypi", "url", "file"]

_SEGMENT = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_NAME = re.compile(rf"(?P<base>{_SEGMENT}(?:/{_SEGMENT})*)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]*))?")
_PACKAGE = re.compile(r"(?P<package>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:==(?P<version>[A-Za-z0-9.!+_-]+))?")
_SHA256 = re.compile(r"sha256=([0-9a-fA-F]{64})")
_LONGEST = 200


class Reference(msgspec.Struct, frozen=True):
    """What was meant. ``source`` is the one spelling that the catalogue keeps; empty for a plain name."""

    kind: Kind
    source: str
    name: str = ""
    package: str = ""
    version: str = ""
    url: str = ""
    sha256: str = ""
    path: Path = Path()

    @property
    def requirement(self) -> str:
        """The package as pip takes it."""
        return f"{self.package}=={self.version}" if self.version else self.package


def parse(text: str) -> Reference:
    """Read ``pypi:PACKAGE[==VERSION]``, an ``http(s)`` URL, a path, or a plain name. Raises ``BadRequest``.

    A path is what starts with ``/``, ``./``, ``../`` or ``~``, or ends in ``.gguf``; ``file:`` before it is allowed.
    """
    text = text.strip()
    scheme = text.partition(":")[0].lower()
    if scheme == "pypi":
        return _package(text)
    if scheme in ("http", "https") and "://" in text:
        return _url(text)
    if scheme == "file" or text.startswith(("/", "./", "../", "~")) or text.lower().endswith(".gguf"):
        return _path(text)
    name = check_name(text)
    return Reference("name", "", name=name)


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
    stem = re.sub(r"-\d{5}-of-\d{5}$", "", stem)
    stem = re.sub(r"\.gguf$", "", stem, flags=re.IGNORECASE)
    found = _QUANTIZATION.search(stem)
    tag = found["quant"] if found else quantization
    slug = _slug(stem[: found.start()] if found and found.start() else stem)
    tag = _slug(tag).replace("-", "_")
    name = slug[: _LONGEST // 2] or "model"
    return f"{name}:{tag[:40]}" if tag else name


_QUANTIZATION = re.compile(
    r"[.\-_](?P<quant>(?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32))$", re.IGNORECASE
)


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
    if re.search(r"[\x00-\x20\x7f]", text):
        raise BadRequest(f"{text!r} is not a URL: it holds a space or a control character.")
    sha256 = _SHA256.fullmatch(parts.fragment)
    if parts.fragment and sha256 is None:
        raise BadRequest("After '#' a URL to pull from may only carry 'sha256=' and 64 hex digits.")
    netloc = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    url = urlunsplit((parts.scheme.lower(), netloc, parts.path or "/", parts.query, ""))
    return Reference("url", url, url=url, sha256=sha256[1].lower() if sha256 else "")


def _path(text: str) -> Reference:
    text = re.sub(r"^file:(//(?=/))?", "", text, flags=re.IGNORECASE)
    if not text or "\0" in text:
        raise BadRequest("An empty path names no file.")
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
