"""Connections that bring the parts of one file side by side, each in a thread of its own."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.response import BaseHTTPResponse

from blazar.errors import DownloadFailed
from blazar.models import web
from blazar.models.ledger import Identity, Ledger
from blazar.models.pace import Pace
from blazar.models.web import Again

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

PART = 32 << 20
LINES = 4
_ATTEMPTS = 6
"""Attempts in a row that bring nothing before the transfer is given up."""
_LONGEST_WAIT_S = 300.0
_PIECE = 1 << 18
_LEAVE_S = 1.0
_LARGEST = 1 << 44
_SPAN = re.compile(r"bytes (\d{1,20})-(\d{1,20})/(\d{1,20})")
_DIGEST = re.compile(r"(?:^|[,\s])sha-256=:([A-Za-z0-9+/=]+):")


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How to fetch: ``headers`` for the first host alone, ``lines`` side by side, parts of ``part`` bytes. ``sleep`` is
    told the seconds between attempts.
    """

    headers: Mapping[str, str] = {}
    lines: int = LINES
    pace: Pace = msgspec.field(default_factory=Pace)
    part: int = PART
    sleep: Callable[[float], object] | None = None


Look = Callable[[bytes, str], None]
"""Given the first bytes of a file and their content type; it may raise."""


class Changed(Exception):
    """What is at the address is not what came so far."""


class _Stopped(Exception):
    """The transfer was ended."""


class Lines:
    """Brings parts of the file at ``url`` to ``handle``, and notes in the ledger what came. It is stopped once."""

    def __init__(self, url: str, ledger: Ledger, way: Way, look: Look | None = None) -> None:
        self._url, self._ledger, self._way, self._look = url, ledger, way, look
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._live: set[BaseHTTPResponse] = set()
        self._waits: list[str] = []
        self._threads: list[threading.Thread] = []
        self.fault: BaseException | None = None
        self.news = threading.Event()

    def begin(self, waiting: Callable[[str], None], *, piecewise: bool) -> BaseHTTPResponse:
        """Learn what there is, and begin the ledger; the answer that brings the first part. ``piecewise``: parts may be
        pieced together though the server does not say what they are parts of.
        """
        failures = 0
        while True:
            failures += 1
            try:
                answer = self._ask({"Range": f"bytes=0-{self._way.part - 1}"})
                found = _SPAN.fullmatch(answer.headers.get("Content-Range", "")) if answer.status == 206 else None
                validator = _validator(answer.headers)
                if found is not None and int(found[3]) > _LARGEST:
                    answer.close()
                    raise DownloadFailed(self._url, f"it is said to have {int(found[3])} bytes, which no model has")
                if found is not None and int(found[1]) == 0 and (validator or piecewise):
                    self._ledger.begin(Identity(self._url, validator, int(found[3]), self._way.part))
                    return answer
                if answer.status != 200:  # an empty file, or parts of nobody knows what
                    answer.close()
                    answer = self._ask({})
                length = answer.headers.get("Content-Length", "")
                self._ledger.begin(Identity(self._url, "", int(length) if length.isdigit() else None))
            except Again as again:
                if not again.reached:  # nothing has come yet: more likely a wrong address than a bad line
                    raise DownloadFailed(self._url, again.reason) from again
                waiting(again.reason)
                self._pause(again, failures)
            else:
                return answer

    def start(self, handle: int, numbers: Iterable[int], first: BaseHTTPResponse | None = None) -> None:
        """Bring these parts; ``first`` is an answer that brings the first of them."""
        wanted = list(numbers)
        self._handle, self._todo = handle, iter(wanted)
        for line in range(min(len(wanted), self._way.lines)):
            thread = threading.Thread(target=self._line, args=(None if line else first,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def busy(self) -> bool:
        """There is more to come."""
        return any(thread.is_alive() for thread in self._threads)

    def waits(self) -> list[str]:
        """Why lines wait, since the last time."""
        with self._lock:
            waits, self._waits = self._waits, []
        return waits

    def stop(self) -> None:
        """Nothing is written any more when this returns. Who still waits for a server finds that out later."""
        with self._lock:
            self._stop.set()
            for answer in self._live:
                with suppress(ValueError, OSError, RuntimeError):
                    answer.shutdown()
        until = time.monotonic() + _LEAVE_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _line(self, first: BaseHTTPResponse | None) -> None:
        """Part after part, until none is left."""
        try:
            while True:
                with self._lock:
                    number = next(self._todo, None)
                if number is None:
                    return
                self._part(number, first)
                first = None
        except _Stopped:
            return
        except BaseException as error:  # noqa: BLE001  (the calling thread raises it)
            with self._lock:
                self.fault = self.fault or error
                self._stop.set()
        finally:
            self.news.set()

    def _part(self, number: int, answer: BaseHTTPResponse | None) -> None:
        failures = 0
        while True:
            before = self._ledger.done(number)
            try:
                self._pour(number, answer or self._ask_part(number))
            except Again as again:
                failures = 1 if self._ledger.done(number) > before else failures + 1
                with self._lock:
                    self._waits.append(again.reason)
                self.news.set()
                self._pause(again, failures)
                answer = None
            else:
                return

    def _ask_part(self, number: int) -> BaseHTTPResponse:
        ledger, identity = self._ledger, self._ledger.identity
        if not identity.part:
            self._note(number, 0)
            return self._ask({})
        start, length = ledger.span(number)
        start, end = start + ledger.done(number), start + (length or 0) - 1
        headers = {"Range": f"bytes={start}-{end}"}
        if identity.validator:
            headers["If-Range"] = identity.validator
        answer = self._ask(headers)
        found = _SPAN.fullmatch(answer.headers.get("Content-Range", ""))
        same = answer.status == 206 and found is not None and int(found[3]) == identity.total
        if same and _validator(answer.headers) in ("", identity.validator):
            if found is not None and int(found[1]) == start:
                return answer
            answer.close()
            raise Again("the server sent another part than it was asked for")
        answer.close()
        raise Changed

    def _ask(self, headers: dict[str, str]) -> BaseHTTPResponse:
        answer = web.ask(self._url, {"Want-Content-Digest": "sha-256=10", **headers, **self._way.headers})
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            answer.close()
            raise DownloadFailed(self._url, "the server sends it compressed though it was asked not to")
        return answer

    def _pour(self, number: int, answer: BaseHTTPResponse) -> None:
        """Write what the answer brings of the part; Again where that is not all, or not what the server meant."""
        start, length = self._ledger.span(number)
        before = self._ledger.done(number)
        promised = _DIGEST.search(answer.headers.get("Content-Digest", ""))
        with self._living(answer):
            digest = self._copy(number, answer, start, length, hashlib.sha256() if promised else None)
        if length is not None and self._ledger.done(number) < length:
            raise Again("the connection was cut")
        if promised and digest is not None and base64.b64encode(digest.digest()).decode() != promised[1]:
            self._note(number, before)
            raise Again("what came was damaged on its way")

    def _copy(
        self, number: int, answer: BaseHTTPResponse, start: int, length: int | None, digest: Hash | None
    ) -> Hash | None:
        done = self._ledger.done(number)
        while length is None or done < length:
            piece = self._read(answer, _PIECE if length is None else min(_PIECE, length - done))
            if not piece:
                break
            if start + done == 0 and self._look is not None:
                self._look(piece, answer.headers.get("Content-Type", ""))
            view, at = memoryview(piece), start + done
            while view:
                count = os.pwrite(self._handle, view, at)
                view, at = view[count:], at + count
            done += len(piece)
            self._note(number, done)
            if digest is not None:
                digest.update(piece)
            if wait := self._way.pace.wait_s(len(piece)):
                self._stop.wait(wait)
        return digest

    def _read(self, answer: BaseHTTPResponse, count: int) -> bytes:
        try:
            piece: bytes = answer.read1(count)
        except (HTTPError, OSError) as error:
            if self._stop.is_set():
                raise _Stopped from error
            silent = "the server fell silent" if isinstance(error, ReadTimeoutError) else "the connection was cut"
            raise Again(silent) from error
        if self._stop.is_set():
            raise _Stopped
        return piece

    @contextmanager
    def _living(self, answer: BaseHTTPResponse) -> Iterator[None]:
        with self._lock:
            self._live.add(answer)
        try:
            yield
        finally:
            with self._lock:
                self._live.discard(answer)
            answer.close()

    def _note(self, number: int, done: int) -> None:
        with self._lock:
            if self._stop.is_set():
                raise _Stopped
            self._ledger.set(number, done)

    def _pause(self, again: Again, failures: int) -> None:
        """Wait before the next attempt; or the end of the attempts."""
        if failures >= _ATTEMPTS:
            raise DownloadFailed(self._url, f"{again.reason}; what came is kept")
        if again.wait_s is not None and again.wait_s > _LONGEST_WAIT_S:
            raise DownloadFailed(self._url, f"the server asks to come back in {again.wait_s:.0f} s; what came is kept")
        seconds = again.wait_s if again.wait_s is not None else min(2.0 ** (failures - 1), 30.0)
        sleep = self._stop.wait if self._way.sleep is None else self._way.sleep
        sleep(seconds)


def _validator(headers: Mapping[str, str]) -> str:
    """What identifies this state of the file; a weak ETag cannot (it may stay while bytes change)."""
    etag = headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
