"""A daemon without engines that speaks the control API over real sockets.

How it answers depends on the model's name: ``echo`` says the last message back, ``thinker`` reasons first, ``slow``
goes on until the client leaves, ``crash`` breaks off with an error, ``cut`` just ends, ``hang`` never answers.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODELS = ("echo", "thinker", "slow", "crash", "cut", "hang", "escape")
_DETAILS = {"format": "gguf", "family": "llama", "parameter_size": "135M", "quantization_level": "Q4_1"}


class Daemon(ThreadingHTTPServer):
    """Keeps the bodies that came, and tells when a client left in the middle of an answer."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.health = {"status": "ok", "version": "9.9.9"}
        self.left = threading.Event()
        self.streaming = threading.Event()
        self.running = [_running("echo"), _running("slow", "2200-01-01T00:00:00Z")]

    @property
    def address(self) -> str:
        """The URL without a path."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that left is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Daemon

    def do_GET(self) -> None:
        match self.path:
            case "/health":
                self._json(200, self.server.health)
            case "/api/ps":
                self._json(200, {"models": self.server.running})
            case "/api/tags":
                rows = [{"name": n, "size": 93_000_000, "digest": "a" * 64, "details": _DETAILS} for n in MODELS]
                self._json(200, {"models": rows})
            case _:
                self._json(404, {"error": "There is no such route here.", "blazar_code": "NOT_FOUND"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append((self.path, body))
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if body["model"] == "busy":
            told = {"error": "All 4 slots of 'busy' are busy and 9 requests wait.", "blazar_code": "ALL_SLOTS_BUSY"}
            self._json(503, told, retry_after=7)
        elif body["model"] not in MODELS:
            told = {"error": f"model '{body['model']}' not found.", "blazar_code": "MODEL_NOT_FOUND"}
            self._json(404, told)
        elif self.path == "/api/show":
            info = {"general.architecture": "llama", "general.parameter_count": 134515008, "llama.context_length": 2048}
            self._json(200, {"model_info": info, "details": _DETAILS, "capabilities": ["completion"]})
        elif self.path == "/api/generate":
            self._json(200, {"model": body["model"], "response": "", "done": True, "done_reason": "unload"})
        else:
            self._chat(body)

    def _chat(self, body: dict[str, Any]) -> None:
        if body["model"] == "hang":
            self.server.streaming.set()
            self._until_left()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for part in _parts(body):
                self._chunk(json.dumps(part).encode() + b"\n")
                self.server.streaming.set()
                if body["model"] == "slow":
                    time.sleep(0.01)
            if body["model"] != "cut":
                self._chunk(b"")
        except OSError:
            self.server.left.set()
        self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        # Split in the middle, so that lines and characters do not end where chunks do.
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]) if len(data) > 1 else (data,):
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()

    def _until_left(self) -> None:
        self.connection.settimeout(30)
        with suppress(OSError):
            if not self.connection.recv(1):
                self.server.left.set()
        self.close_connection = True

    def _json(self, status: int, body: object, retry_after: int | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def daemon() -> Iterator[Daemon]:
    """A running one, on a port of its own."""
    server = Daemon()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _parts(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    said = body["messages"][-1]["content"]
    match body["model"]:
        case "thinker":
            yield _part(thinking="Let me see. ")
            yield _part(thinking="It is easy.")
            yield from (_part(word) for word in ("The ", "answer: ", said))
        case "slow":
            for number in range(100_000):
                yield _part(f"{number} ")
        case "crash":
            yield _part("Once upon ")
            error = "The engine that runs 'crash' was killed by SIGKILL."
            yield {"error": error, "blazar_code": "ENGINE_CRASHED"}
            return
        case "cut":
            yield _part("Once upon ")
            return
        case "escape":
            yield _part("\x1b]0;owned\x07red \x1b[31mtext\r\n")
        case _:
            yield from (_part(piece) for piece in ("You said: ", said))
    yield _part() | {
        "done": True,
        "done_reason": "stop",
        "total_duration": 2_000_000_000,
        "prompt_eval_count": 12,
        "prompt_eval_duration": 100_000_000,
        "eval_count": 50,
        "eval_duration": 1_000_000_000,
    }


def _part(content: str = "", thinking: str = "") -> dict[str, Any]:
    message = {"role": "assistant", "content": content} | ({"thinking": thinking} if thinking else {})
    return {"model": "m", "created_at": "2026-01-01T00:00:00.000000Z", "message": message, "done": False}


def _running(name: str, expires_at: str = "2020-01-01T00:00:00Z") -> dict[str, Any]:
    runtime = {
        "state": "ready",
        "pid": 4242,
        "port": 40000,
        "engine": "llamacpp",
        "build": "b1",
        "slots": 4,
        "in_flight": 1,
    }
    row = {"name": name, "model": name, "size": 250_000_000, "digest": "a" * 64, "details": _DETAILS}
    return row | {"expires_at": expires_at, "size_vram": 0, "context_length": 4096, "blazar": runtime}


if __name__ == "__main__":
    server = Daemon(int(sys.argv[1]))
    print(server.address, flush=True)
    server.serve_forever()
