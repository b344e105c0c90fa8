"""One file over HTTP: resumed where it stopped, hashed while it is written, named only when it is whole.

``NAME.partial`` holds what has come, ``NAME.json`` beside it what is needed to go on: address, validator, size. A
resumed transfer asks for the rest with ``If-Range``, so a file that changed meanwhile begins anew.
"""

from __future__ import annotations

import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from blazar.errors import DownloadFailed
from blazar.models.files import BLOCK, HashingWriter, ensure_room, full_disk_told, place
from blazar.models.progress import Listener, Meter, Progress, ignore

_ATTEMPTS = 6
"""Attempts in a row that bring nothing before the transfer is given up."""
_TIMEOUT_S = 60.0
_PIECE = 1 << 18
_LONGEST_WAIT_S = 300.0
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


class Downloaded(msgspec.Struct, frozen=True):
    """A file that is whole: where, how many bytes, and its ``sha256:…``."""

    path: Path
    size: int
    digest: str


class _State(msgspec.Struct):
    """The sidecar. ``synced`` bytes are surely on the disk; within the same ``boot`` all that is in the file counts."""

    url: str
    validator: str = ""
    total: int | None = None
    synced: int = 0
    boot: str = ""
    digest: str = ""


class _Again(Exception):
    """Another attempt may do what this one did not. ``wait_s`` is what the server asked for."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_s = wait_s


def download(
    url: str,
    folder: Path,
    name: str,
    listener: Listener = ignore,
    *,
    sha256: str = "",
    look: Callable[[bytes, str], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Downloaded:
    """Fetch ``url`` to ``folder/name``.

    ``look`` is given the first bytes and the content type, and may raise to end the transfer early. Ctrl-C, or any
    exception out of ``listener``, leaves a partial that the next call takes up. Raises ``DownloadFailed`` or
    ``InsufficientStorage``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    transfer = _Transfer(url, folder, name, listener, look)
    finished = transfer.finished()
    if finished is None:
        transfer.run(sleep)
        finished = transfer.finish(sha256)
    elif sha256 and finished.digest != f"sha256:{sha256}":
        transfer.discard()
        raise DownloadFailed(url, f"its SHA-256 is {finished.digest[7:]}, not {sha256}")
    return finished


class _Transfer:
    def __init__(
        self, url: str, folder: Path, name: str, listener: Listener, look: Callable[[bytes, str], None] | None
    ) -> None:
        self._url = url
        self._folder = folder
        self._name = name
        self._listener = listener
        self._look = look
        self._target = folder / name
        self._partial = folder / f"{name}.partial"
        self._sidecar = folder / f"{name}.json"
        self._state = self._remembered()

    def finished(self) -> Downloaded | None:
        """The whole file of an earlier call, if it was not taken away since."""
        if not self._state.digest or not self._target.exists():
            return None
        return Downloaded(self._target, self._target.stat().st_size, self._state.digest)

    def run(self, sleep: Callable[[float], None]) -> None:
        """Attempts until the partial is whole."""
        with self._partial.open("r+b" if self._partial.exists() else "w+b") as file:
            self._take_up(file)
            failures, best = 0, self._writer.count
            try:
                while (again := self._attempt(file)) is not None:
                    failures = 1 if self._writer.count > best else failures + 1
                    best = max(best, self._writer.count)
                    sleep(self._pause(again, failures))
            finally:
                self._writer.sync()

    def _pause(self, again: _Again, failures: int) -> float:
        """How long to wait before the next attempt, in seconds; or the end of the attempts."""
        if failures >= _ATTEMPTS:
            raise DownloadFailed(self._url, f"{again.reason}; what came is kept")
        if again.wait_s is not None and again.wait_s > _LONGEST_WAIT_S:
            raise DownloadFailed(self._url, f"the server asks to come back in {again.wait_s:.0f} s; what came is kept")
        self._listener(Progress("wait", again.reason, self._writer.count, self._state.total))
        return again.wait_s if again.wait_s is not None else min(2.0 ** (failures - 1), 30.0)

    def finish(self, sha256: str) -> Downloaded:
        """Check, name and remember the whole file."""
        digest = self._writer.digest
        if sha256 and digest != f"sha256:{sha256}":
            self.discard()
            raise DownloadFailed(self._url, f"its SHA-256 is {digest[7:]}, not {sha256}; what came was thrown away")
        place(self._partial, self._target)
        self._state.digest = digest
        self._save()
        return Downloaded(self._target, self._writer.count, digest)

    def discard(self) -> None:
        """Nothing of it is left."""
        for path in (self._partial, self._target, self._sidecar):
            path.unlink(missing_ok=True)

    def _remembered(self) -> _State:
        try:
            state = msgspec.json.decode(self._sidecar.read_bytes(), type=_State)
        except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError):
            return _State(self._url)
        return state if state.url == self._url else _State(self._url)

    def _save(self) -> None:
        fresh = self._sidecar.with_name(self._sidecar.name + ".new")
        fresh.write_bytes(msgspec.json.encode(self._state))
        fresh.replace(self._sidecar)

    def _take_up(self, file: BinaryIO) -> None:
        """Hash what an earlier call left, as far as it can be trusted."""
        size = os.fstat(file.fileno()).st_size
        trusted = size if self._state.boot == _boot() else min(self._state.synced, size)
        if not self._state.validator:
            trusted = 0
        file.truncate(trusted)
        self._writer = self._new_writer(file)
        if trusted:
            meter = Meter(self._listener, "verify", self._name, trusted)
            while piece := file.read(BLOCK):
                self._writer.hash_only(piece)
                meter.add(len(piece))

    def _new_writer(self, file: BinaryIO) -> HashingWriter:
        def synced(count: int) -> None:
            self._state.synced = count
            self._save()

        return HashingWriter(file, synced)

    def _attempt(self, file: BinaryIO) -> _Again | None:
        """One request, from where the file ends to its end; ``None`` when the file is whole."""
        try:
            with self._ask(self._writer.count if self._state.validator else 0) as answer:
                if self._writer.count and answer.status != 206:  # the server begins anew, so do we
                    file.seek(0)
                    file.truncate()
                    self._writer = self._new_writer(file)
                self._note(answer, self._writer.count)
                self._pour(answer)
        except _Again as again:
            return again
        except _Whole:
            return None
        if self._state.total is not None and self._writer.count < self._state.total:
            return _Again("the connection was cut")
        return None

    def _pour(self, answer: http.client.HTTPResponse) -> None:
        writer, total = self._writer, self._state.total
        if total is not None:
            ensure_room(self._folder, total - writer.count, self._name)
        meter = Meter(self._listener, "download", self._name, total, done=writer.count)
        meter.at(writer.count)
        with full_disk_told(self._folder, self._name, lambda: (total or writer.count) - writer.count):
            while piece := self._read(answer):
                if writer.count == 0 and self._look is not None:
                    self._look(piece, answer.headers.get("Content-Type", ""))
                writer.write(piece)
                meter.add(len(piece))

    @staticmethod
    def _read(answer: http.client.HTTPResponse) -> bytes:
        try:
            return answer.read(_PIECE)
        except (http.client.HTTPException, OSError) as error:
            raise _Again(f"the connection was cut ({_words(error)})") from error

    def _ask(self, start: int) -> http.client.HTTPResponse:
        request = urllib.request.Request(
            self._url, headers={"User-Agent": "blazar", "Accept-Encoding": "identity", "Accept": "*/*"}
        )
        if start:
            request.add_header("Range", f"bytes={start}-")
            request.add_header("If-Range", self._state.validator)
        try:
            answer: http.client.HTTPResponse = _OPENER.open(request, timeout=_TIMEOUT_S)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error, start) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = f"the server cannot be reached ({_words(error)})"
            if not start:  # nothing has come yet: more likely a wrong address than a bad line
                raise DownloadFailed(self._url, reason) from error
            raise _Again(reason) from error
        return answer

    def _refused(self, error: urllib.error.HTTPError, start: int) -> Exception:
        if error.code == 416:
            span = _RANGE.fullmatch(error.headers.get("Content-Range", ""))
            if span is not None and span[2] == str(start):
                return _Whole()
            self._state.validator = ""
            return DownloadFailed(
                self._url, "the server has less of the file than came before; pull again to begin anew"
            )
        if error.code == 429 or error.code >= 500:
            return _Again(f"the server answered {error.code} {error.reason}", _retry_after(error.headers))
        meaning = {401: "it asks for a login", 403: "it refuses access", 404: "it has no such file"}.get(error.code, "")
        return DownloadFailed(self._url, f"the server answered {error.code}" + (f": {meaning}" if meaning else ""))

    def _note(self, answer: http.client.HTTPResponse, start: int) -> None:
        """Learn size and validator from the head, before any of the body is kept."""
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise DownloadFailed(self._url, "the server sends it compressed though it was asked not to")
        validator = _validator(answer.headers)
        if start:
            span = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            same = span is not None and span[1] == str(start) and validator in ("", self._state.validator)
            if not same or (self._state.total is not None and span is not None and span[2] != str(self._state.total)):
                self._state.validator = ""  # so the next attempt begins anew
                raise _Again("the server sent another part than it was asked for")
            return
        length = answer.headers.get("Content-Length", "")
        self._state = _State(self._url, validator, int(length) if length.isdigit() else None, 0, _boot())
        self._save()


class _Whole(Exception):
    """The server has no more than what came already."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to other http addresses, and never from https to http."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        scheme = newurl.partition(":")[0].lower()
        if scheme not in ("http", "https") or (req.type == "https" and scheme != "https"):
            raise DownloadFailed(req.full_url, f"it leads on to {newurl}, which is not as safe")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_Redirects)


def _validator(headers: Message[str, str]) -> str:
    """What identifies this state of the file; a weak ETag cannot (it may stay while bytes change)."""
    etag = headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")


def _retry_after(headers: Message[str, str]) -> float | None:
    text = headers.get("Retry-After", "").strip()
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _words(error: BaseException) -> str:
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(inner) or type(inner).__name__
