"""One question over HTTP to where models come from: redirects, proxies, refusals, waits."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse
from urllib3.util import Timeout

from blazar.errors import DownloadFailed

SILENCE_S = 60.0
_CONNECT_S = 15.0
_REDIRECTS = 8
_MOVED = frozenset({301, 302, 303, 307, 308})
_SMALL = 8 * 1024 * 1024
_TRIES = 4
_LONGEST_WAIT_S = 30.0
_MEANING = {
    401: "it asks for a login",
    403: "it refuses access",
    404: "it has no such file",
}


class Again(Exception):
    """Another try may do what this one did not. ``wait_s`` is what the server asked for; ``reached``: it was there."""

    def __init__(self, reason: str, wait_s: float | None = None, *, reached: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_s = wait_s
        self.reached = reached


def ask(url: str, headers: Mapping[str, str] | None = None) -> BaseHTTPResponse:
    """The head of the answer to a GET, its body still to be read; redirects are followed, never from https to http, and
    a login is only shown to the host that it is for.

    Raises Again; DownloadFailed for a refusal, or a redirect that is not followed.
    """
    sent = {"User-Agent": "blazar", "Accept-Encoding": "identity", "Accept": "*/*", **(headers or {})}
    first = url
    for _ in range(_REDIRECTS):
        answer = _get(url, sent)
        if answer.status not in _MOVED or "Location" not in answer.headers:
            return _accepted(first, answer)
        answer.drain_conn()
        answer.release_conn()
        onward = urljoin(url, answer.headers["Location"])
        scheme = urlsplit(onward).scheme
        if scheme not in ("http", "https") or (urlsplit(url).scheme == "https" and scheme != "https"):
            raise DownloadFailed(first, f"it leads on to {onward}, which is not as safe")
        if _place(onward) != _place(url):
            sent.pop("Authorization", None)
        url = onward
    raise DownloadFailed(first, f"it was led on {_REDIRECTS} times and no further")


def small(url: str, headers: Mapping[str, str] | None = None, limit: int = _SMALL) -> bytes:
    """A body of a few megabytes at most, tried again a few times. Raises DownloadFailed."""
    for number in range(1, _TRIES + 1):
        try:
            answer = ask(url, headers)
            try:
                body: bytes = answer.read(limit + 1)
            except (HTTPError, OSError) as error:
                raise Again(f"the connection was cut ({words(error)})") from error
            finally:
                answer.close()
        except Again as again:
            wait = again.wait_s if again.wait_s is not None else 2.0 ** (number - 1)
            if number == _TRIES or not again.reached or wait > _LONGEST_WAIT_S:
                raise DownloadFailed(url, again.reason) from again
            time.sleep(wait)
        else:
            if len(body) > limit:
                raise DownloadFailed(url, f"it is larger than {limit} bytes")
            return body
    raise AssertionError


def json(url: str, kind: type[Any], headers: Mapping[str, str] | None = None) -> Any:
    """A small body, decoded as ``kind``. Raises DownloadFailed."""
    body = small(url, headers)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DownloadFailed(url, f"the server's answer makes no sense ({error})") from error


def words(error: BaseException) -> str:
    """What went wrong on the line, without the library's own."""
    inner = getattr(error, "reason", None) or error
    text = str(inner) or type(inner).__name__
    return text.rpartition(": ")[2].strip("() ") or text


def _get(url: str, headers: Mapping[str, str]) -> BaseHTTPResponse:
    try:
        return _pool(_proxy(url)).request(
            "GET", url, headers=headers, redirect=False, retries=False, preload_content=False
        )
    except (HTTPError, OSError) as error:
        raise Again(f"the server cannot be reached ({words(error)})", reached=False) from error


def _accepted(url: str, answer: BaseHTTPResponse) -> BaseHTTPResponse:
    """The answer, if it is one."""
    if answer.status < 300 or answer.status == 416:
        return answer
    answer.close()
    if answer.status == 429 or answer.status >= 500:
        reason = f"the server answered {answer.status}" + (f" {answer.reason}" if answer.reason else "")
        raise Again(reason, _retry_after(answer.headers.get("Retry-After", "")))
    meaning = _MEANING.get(answer.status, "")
    reason = f"the server answered {answer.status}" + (f": {meaning}" if meaning else "")
    raise DownloadFailed(url, reason, answer.status)


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _proxy(url: str) -> str:
    """The proxy that the environment names for this address, or nothing."""
    parts = urlsplit(url)
    if parts.hostname is None or urllib.request.proxy_bypass(parts.hostname):
        return ""
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all") or ""


@cache
def _pool(proxy: str) -> urllib3.PoolManager:
    timeout = Timeout(connect=_CONNECT_S, read=SILENCE_S)
    if proxy:
        return urllib3.ProxyManager(proxy, timeout=timeout, maxsize=16)
    return urllib3.PoolManager(timeout=timeout, maxsize=16)


def _retry_after(text: str) -> float | None:
    if text.strip().isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
