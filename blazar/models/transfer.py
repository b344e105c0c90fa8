"""One file over HTTP: parts of it side by side, each taken up where it stopped, hashed while it is written, and named
only when it is whole.

A part is asked for with ``If-Range``, so that a file which changed meanwhile begins anew. Where the server says what
the bytes of an answer hash to (RFC 9530), damage is found at once and only that answer fetched again. Where it does
not, and the whole file's hash is wrong, the parts are fetched again one by one until it is right.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from urllib3.response import BaseHTTPResponse

from blazar.errors import DownloadFailed
from blazar.models.files import BLOCK, ensure_room, full_disk_told, place
from blazar.models.ledger import Ledger
from blazar.models.lines import Changed, Lines, Look, Way
from blazar.models.progress import Listener, Meter, Progress, ignore

_CHANGES = 3
_SYNC_EVERY = 64 << 20
_TICK_S = 0.05
_AT_ONCE = 16
_COPIES = 3


class Downloaded(msgspec.Struct, frozen=True):
    """A file that is whole: where, how many bytes, and its ``sha256:…``."""

    path: Path
    size: int
    digest: str


def download(
    url: str,
    folder: Path,
    name: str,
    listener: Listener = ignore,
    *,
    sha256: str = "",
    look: Look | None = None,
    way: Way | None = None,
) -> Downloaded:
    """Fetch ``url`` to ``folder/name``.

    ``look`` is given the first bytes and the content type, and may raise to end the transfer early. Ctrl-C, or any
    exception out of ``listener``, leaves what came for the next call to take up. Raises ``DownloadFailed`` or
    ``InsufficientStorage``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ledger, target = Ledger(folder, name), folder / name
    if ledger.identity.url == url and ledger.identity.digest and target.exists():
        if sha256 and ledger.identity.digest != f"sha256:{sha256}":
            target.unlink()
            ledger.discard()
            raise DownloadFailed(url, f"its SHA-256 is {ledger.identity.digest[7:]}, not {sha256}")
        return Downloaded(target, target.stat().st_size, ledger.identity.digest)
    for _ in range(_CHANGES):
        try:
            with full_disk_told(folder, name, lambda: 0):
                digest = _Transfer(url, folder, name, listener, look, way or Way(), ledger).run(sha256)
        except Changed:
            ledger.discard()
            continue
        finally:
            ledger.close()
        size = ledger.data.stat().st_size
        place(ledger.data, target)
        ledger.finish(digest, size)
        return Downloaded(target, size, digest)
    raise DownloadFailed(url, "it changes while it is fetched")


class _Transfer:
    """Lines bring the parts; this hashes what is whole, makes it durable, and tells of it."""

    def __init__(
        self, url: str, folder: Path, name: str, listener: Listener, look: Look | None, way: Way, ledger: Ledger
    ) -> None:
        self._url, self._folder, self._name = url, folder, name
        self._listener, self._look, self._way, self._ledger = listener, look, way, ledger
        self._hash = hashlib.sha256()
        self._front = 0

    def run(self, sha256: str) -> str:
        """Bring all that lacks. The digest of the whole."""
        self._promised = f"sha256:{sha256}" if sha256 else ""
        lines, first = self._lines(), None
        if not self._ledger.take_up(self._url):
            first = lines.begin(self._waiting, piecewise=bool(sha256))
        with self._open():
            self._bring(lines, first)
            self._hash_rest()
            digest = self._hash.hexdigest()
            if sha256 and digest != sha256:
                digest = self._salvage(digest, sha256)
        return f"sha256:{digest}"

    def _bring(self, lines: Lines, first: BaseHTTPResponse | None) -> None:
        ledger = self._ledger
        total, here = ledger.identity.total, ledger.brought
        try:
            if total is not None:
                ensure_room(self._folder, total - here, self._name)
            meter = Meter(self._listener, "download", self._name, total, done=here, digest=self._promised)
            meter.at(here)
        except BaseException:
            if first is not None:
                first.close()
            raise
        synced = here
        with self._stopped(lines), full_disk_told(self._folder, self._name, lambda: (total or 0) - ledger.brought):
            lines.start(self._handle, [number for number in range(ledger.count) if not ledger.whole(number)], first)
            while lines.busy():
                self._listen(lines)
                meter.at(ledger.brought)
                self._hash_on()
                if ledger.brought - synced > _SYNC_EVERY:
                    synced = ledger.brought
                    self._sync()
            self._listen(lines)
        meter.at(ledger.brought)

    def _listen(self, lines: Lines) -> None:
        lines.news.wait(_TICK_S)
        lines.news.clear()
        for reason in lines.waits():
            self._waiting(reason)
        if lines.fault is not None:
            raise lines.fault

    def _hash_on(self) -> bool:
        """Hash some more of the parts that are whole, from the front on; False when there is none."""
        ledger = self._ledger
        for _ in range(_AT_ONCE):
            number = self._front // ledger.identity.part if ledger.identity.part else 0
            if number >= ledger.count or not ledger.whole(number):
                return False
            start, length = ledger.span(number)
            if not self._hash_block(start + (length or 0) - self._front):
                return False
        return True

    def _hash_rest(self) -> None:
        """Of a file without parts, all; of others what the hash is behind."""
        total = self._ledger.brought
        meter = Meter(self._listener, "verify", self._name, total, done=self._front, digest=self._promised)
        while self._hash_block(total - self._front):
            meter.at(self._front)

    def _hash_block(self, bound: int) -> bool:
        block = os.pread(self._handle, min(BLOCK, bound), self._front)
        self._hash.update(block)
        self._front += len(block)
        return bool(block)

    def _salvage(self, digest: str, sha256: str) -> str:
        """Not what was promised, and nobody knows which part is to blame: one after the other comes again, until two
        copies of it agree, as long as it takes for the whole to be right.
        """
        ledger = self._ledger
        for number in range(ledger.count if ledger.identity.part else 0):
            before = self._part_digest(number)
            copies = [before]
            while len(copies) <= _COPIES and len(set(copies)) == len(copies):
                self._waiting("a part that may be damaged, once more")
                ledger.set(number, 0)
                lines = self._lines()
                with self._stopped(lines):
                    lines.start(self._handle, [number])
                    while lines.busy():
                        self._listen(lines)
                    self._listen(lines)
                copies.append(self._part_digest(number))
            if copies[-1] != before:
                self._hash, self._front = hashlib.sha256(), 0
                self._hash_rest()
                if (digest := self._hash.hexdigest()) == sha256:
                    return digest
        ledger.discard()
        raise DownloadFailed(self._url, f"its SHA-256 is {digest}, not {sha256}; what came was thrown away")

    def _part_digest(self, number: int) -> str:
        start, length = self._ledger.span(number)
        return hashlib.sha256(os.pread(self._handle, length or 0, start)).hexdigest()

    def _waiting(self, reason: str) -> None:
        self._listener(Progress("wait", reason, self._ledger.brought, self._ledger.identity.total))

    def _lines(self) -> Lines:
        return Lines(self._url, self._ledger, self._way, self._look)

    @contextmanager
    def _stopped(self, lines: Lines) -> Iterator[None]:
        try:
            yield
        finally:
            lines.stop()

    @contextmanager
    def _open(self) -> Iterator[None]:
        self._handle = os.open(self._ledger.data, os.O_RDWR)
        try:
            yield
        finally:
            self._sync()
            os.close(self._handle)

    def _sync(self) -> None:
        seen = [self._ledger.done(number) for number in range(self._ledger.count)]
        os.fsync(self._handle)
        self._ledger.synced(seen)
