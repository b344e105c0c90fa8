"""A real HTTP server for files, with the faults that real servers have, switched on one by one."""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


class Web:
    """Serves ``files`` by path; ``requests`` holds (path, Range header) of each request that came.

    ``cut_after``: bytes of the body after which the next answers are cut, one entry each. ``answers``: whole answers
    (status, headers) that the next requests get instead. ``redirects``: path to location. ``pause_s``: between pieces.
    ``spoil``: what becomes of a body on its way. ``digests``: each answer says what its bytes hash to. ``sent``: bytes
    of bodies that went out. ``logins``: what each request showed as its login. ``guard``: a login that is asked for.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.etags: dict[str, str] = {}
        self.redirects: dict[str, str] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.cut_after: list[int] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.ranges = True
        self.validators = True
        self.lengths = True
        self.lie_about_length = 0
        self.pause_s = 0.0
        self.digests = False
        self.spoil: Callable[[bytes], bytes] | None = None
        self.sent = 0
        self.logins: list[str | None] = []
        self.guard = ""
        self.before_body: Callable[[], None] | None = None

    def __enter__(self) -> Web:
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                web._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        path, asked = handler.path.split("?")[0], handler.headers.get("Range")
        self.requests.append((path, asked))
        self.logins.append(handler.headers.get("Authorization"))
        handler.close_connection = True
        if self.answers:
            status, headers = self.answers.pop(0)
            self._head(handler, status, {"Content-Length": "0", **headers})
        elif self.guard and self.logins[-1] != self.guard:
            self._head(handler, 401, {"Content-Length": "0"})
        elif path in self.redirects:
            self._head(handler, 302, {"Location": self.redirects[path], "Content-Length": "0"})
        elif path not in self.files:
            self._head(handler, 404, {"Content-Length": "0"})
        else:
            self._send_file(handler, path, asked)

    def _send_file(self, handler: BaseHTTPRequestHandler, path: str, asked: str | None) -> None:
        data = self.files[path]
        etag = self.etags.get(path, '"one"')
        html = path.endswith("/")
        headers = {"Content-Type": "text/html" if html else "application/octet-stream"}
        if self.validators:
            headers["ETag"] = etag
        status, start, end = 200, 0, len(data)
        unchanged = handler.headers.get("If-Range") in (None, etag)
        if asked and self.ranges and unchanged:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(len(data), int(last) + 1 if last else len(data))
            if start >= len(data):
                self._head(handler, 416, {"Content-Range": f"bytes */{len(data)}", "Content-Length": "0"})
                return
            status = 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        body = data[start:end]
        if self.lengths:
            headers["Content-Length"] = str(len(body) + self.lie_about_length)
        if self.digests:
            digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
            headers["Content-Digest"] = f"sha-256=:{digest}:"
        if self.spoil is not None:
            body = self.spoil(body)
        self._head(handler, status, headers)
        if self.before_body is not None:
            self.before_body()
        if self.cut_after:
            body = body[: self.cut_after.pop(0)]
        try:
            for at in range(0, len(body), 1 << 16):
                handler.wfile.write(body[at : at + (1 << 16)])
                self.sent += len(body[at : at + (1 << 16)])
                time.sleep(self.pause_s)
        except (BrokenPipeError, ConnectionResetError):
            return

    @staticmethod
    def _head(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str]) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Connection", "close")
        handler.end_headers()
