"""A stand-in for llama-server that says what the conversation scripts. Standard library, run by path.

A person's message that holds ``@call NAME JSON`` is answered with that tool call, in fragments, as llama-server streams
one; once the tool has answered, with ``The tool said: ...``. Everything else gets ``Hello from the script.``

The last message may ask for worse: ``@fail`` for a 500, ``@garbage`` for bytes that are no HTTP, ``@hang`` for silence
from then on (connections are taken), ``@spin SECONDS`` for an answer after so much work, during which nothing else is
answered, ``@grow MEGABYTES`` for an answer and as much memory that it keeps.

The bodies that came are written to the file ``asked.jsonl`` beside the model, one line each.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FLAGS = (
    "--model --alias --host --port --ctx-size --parallel --no-kv-unified --threads --threads-batch --threads-http "
    "--n-gpu-layers --fit --flash-attn --cache-type-k --cache-type-v --cache-ram --metrics --slots --no-ui "
    "--sse-ping-interval --offline --batch-size --ubatch-size"
)
# Agents may put what they are told into quotes of their own.
CALL = re.compile(r"@call (\S+) (\{.*?\})(?=[\s\"]|$)", re.DOTALL)

ILL = re.compile(r"@(fail|garbage|hang|spin|grow) ?(\d*)")
# Whoever has it works; a real engine answers nothing else meanwhile that its loop must answer.
LOOP = threading.Lock()
KEPT: list[bytearray] = []


def option(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part.get("text", "") for part in parts)


def deltas(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """The deltas of the answer, and why it ends."""
    said = [(str(message["role"]), text_of(message.get("content")).replace('\\"', '"')) for message in messages]
    asked = [place for place, (role, text) in enumerate(said) if role == "user" and CALL.search(text)]
    if asked and tools:
        results = [text for role, text in said[asked[-1] :] if role == "tool"]
        if results:
            return [{"content": "The tool said: "}, {"content": results[-1]}], "stop"
        name, arguments = CALL.search(said[asked[-1]][1]).groups()  # type: ignore[union-attr]
        head = {"index": 0, "id": "call_scripted", "type": "function", "function": {"name": name, "arguments": ""}}
        halves = (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :])
        rest: list[dict[str, Any]] = [
            {"tool_calls": [{"index": 0, "function": {"arguments": half}}]} for half in halves
        ]
        return [{"tool_calls": [head]}, *rest], "tool_calls"
    return [{"content": "Hello "}, {"content": "from the script."}], "stop"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def ill(self, kind: str, amount: int) -> bool:
        """Misbehave; says whether that was all."""
        if kind == "fail":
            self.json({"error": {"code": 500, "message": "the script says so", "type": "server_error"}}, 500)
        elif kind == "garbage":
            self.wfile.write(b"\0\1\2 this is no answer\r\n\r\n")
            self.close_connection = True
        elif kind == "hang":
            with LOOP:
                time.sleep(3600)
        elif kind == "spin":
            with LOOP:
                until = time.monotonic() + amount
                while time.monotonic() < until:
                    sum(range(10000))
        else:
            KEPT.append(bytearray(b"x") * (amount * 1_000_000))
        return kind in {"fail", "garbage"}

    def do_GET(self) -> None:
        if self.path == "/slots":
            LOOP.acquire()
            LOOP.release()
        alias, slots = option("--alias"), int(option("--parallel"))
        answers = {
            "/health": {"status": "ok"},
            "/v1/models": {"data": [{"id": alias, "aliases": [alias]}]},
            "/props": {
                "total_slots": slots,
                "default_generation_settings": {"n_ctx": int(option("--ctx-size")) // slots},
            },
        }
        self.json(answers.get(self.path, []))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("input_tokens"):
            self.json({"input_tokens": sum(len(text_of(m.get("content"))) for m in body["messages"]) // 4})
            return
        with Path(option("--model")).with_name("asked.jsonl").open("a") as log:
            log.write(json.dumps(body) + "\n")
        worse = ILL.search(text_of(body["messages"][-1].get("content")))
        if worse and self.ill(worse[1], int(worse[2] or 0)):
            return
        pieces, reason = deltas(body["messages"], body.get("tools") or [])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        base = {"id": "chatcmpl-s", "object": "chat.completion.chunk", "created": 1, "model": option("--alias")}
        for delta in [{"role": "assistant", "content": None}, *pieces]:
            self.event(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        self.event(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        self.event(base | {"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def event(self, value: object) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()

    def json(self, value: object, status: int = 200) -> None:
        if self.path != "/health" and self.headers.get("Authorization") != f"Bearer {os.environ['LLAMA_API_KEY']}":
            self.send_error(401)
            return
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class UnixServer(ThreadingHTTPServer):
    address_family = socket.AF_UNIX
    daemon_threads = True

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 0

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        client, _ = self.socket.accept()
        return client, ("localhost", 0)


def main() -> None:
    if "--version" in sys.argv:
        sys.stderr.write("version: scripted 1.0\n")
    elif "--help" in sys.argv:
        sys.stderr.write(FLAGS + "\n")
    else:
        server = UnixServer(option("--host"), Handler)  # type: ignore[arg-type]
        sys.stderr.write(f"srv init: listening on unix://{option('--host')}\n")
        sys.stderr.flush()
        server.serve_forever()


main()
