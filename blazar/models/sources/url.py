"""Models at an ``http(s)`` address: one GGUF file, or all shards of a split one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from blazar.errors import BadRequest
from blazar.models import shards
from blazar.models.reference import Reference
from blazar.models.sources import Fetched, Means, look_for_gguf

if TYPE_CHECKING:
    from blazar.models.transfer import Downloaded


def fetch(reference: Reference, means: Means) -> Fetched:
    """Bring the file, or every shard of it."""
    parts = urlsplit(reference.url)
    folder, _, last = parts.path.rpartition("/")
    names = shards.siblings(unquote(last))
    if reference.sha256 and len(names) > 1:
        raise BadRequest("A SHA-256 in the URL is of one file, and this one is split into several.")
    got: list[Downloaded] = []
    for name in names:
        url = urlunsplit((parts.scheme, parts.netloc, f"{folder}/{quote(name)}", parts.query, ""))
        url = reference.url if len(names) == 1 else url
        got.append(means.bring(url, file_name(name), reference.sha256, _looker(url)))
    return Fetched(tuple(one.path for one in got), tuple(one.digest for one in got))


def file_name(text: str) -> str:
    """A name that is safe on disk and ends in ``.gguf``."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", text).lstrip(".-")[-180:]
    return safe if safe.lower().endswith(".gguf") else f"{safe or 'model'}.gguf"


def _looker(url: str) -> Callable[[bytes, str], None]:
    return lambda first, kind: look_for_gguf(url, first, kind)
