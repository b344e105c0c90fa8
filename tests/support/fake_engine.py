"""A stand-in for llama-server that misbehaves as its "model file", a JSON object, says. Standard library, run by path.

Keys, all optional: ``term``: "ignore" SIGTERM; ``say``: seconds between log lines while it "loads"; ``load``: seconds
that loading takes; ``spin``: use CPU meanwhile; ``die``: [code or minus signal, last words] instead of becoming ready;
``alias``: the name to serve under; ``helper``: start a process in the same group that ignores SIGTERM, and write its
pid to this file; ``after``: seconds from ready to an exit with code 9; ``wake``: "fails" as llama-server does when it
has slept and the model cannot be loaded again. With ``--sleep-idle-seconds`` it sleeps as llama-server does: questions
about it do not wake it, one to its slots does, which takes ``load`` seconds again.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

FLAGS = (
    "--model --alias --host --port --ctx-size --parallel --no-kv-unified --threads --threads-batch --threads-http "
    "--n-gpu-layers --fit --flash-attn --cache-type-k --cache-type-v --cache-ram --metrics --slots --no-ui "
    "--sse-ping-interval --offline --sleep-idle-seconds --list-devices --tensor-split"
)


def option(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def listen() -> socket.socket:
    host = option("--host")
    if host.endswith(".sock"):
        server = socket.socket(socket.AF_UNIX)
        server.bind(host)
    else:
        server = socket.socket(socket.AF_INET)
        server.bind((host, int(option("--port"))))
        say(f"srv init: listening on http://{host}:{server.getsockname()[1]}")
    server.listen(64)
    return server


class Sleep:
    """When it last worked."""

    def __init__(self, conduct: dict[str, object]) -> None:
        self.conduct = conduct
        self.after = int(option("--sleep-idle-seconds", "-1"))
        self.worked = time.monotonic()

    @property
    def asleep(self) -> bool:
        return self.after > 0 and time.monotonic() - self.worked > self.after

    def work(self) -> None:
        if self.asleep:
            if self.conduct.get("wake") == "fails":
                say("srv  load_model: failed to reload model after sleeping")
                # In this thread, at once: another would let it go on for a moment.
                os.abort()
            load(self.conduct)
        self.worked = time.monotonic()


def serve(server: socket.socket, alias: str, ready: threading.Event, sleep: Sleep) -> None:
    slots = int(option("--parallel"))
    answers: dict[str, dict[str, object]] = {
        "/health": {"status": "ok"},
        "/v1/models": {"data": [{"id": alias, "aliases": [alias]}]},
        "/props": {
            "total_slots": slots,
            "default_generation_settings": {"n_ctx": int(option("--ctx-size")) // slots},
        },
    }
    while True:
        client, _ = server.accept()
        with client:
            head = client.recv(65536).decode()
            if not head:
                continue
            path = head.split(" ")[1]
            if path == "/slots":
                sleep.work()
            answers["/props"]["is_sleeping"] = sleep.asleep
            right = f"Bearer {os.environ['LLAMA_API_KEY']}" in head
            status = "503 Loading" if not ready.is_set() else "200 OK" if path == "/health" or right else "401 No"
            body = json.dumps(answers.get(path, {})).encode()
            client.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


def load(conduct: dict[str, object]) -> None:
    until = time.monotonic() + float(str(conduct.get("load", 0)))
    every = float(str(conduct.get("say", 0)))
    said = time.monotonic()
    while time.monotonic() < until:
        if conduct.get("spin"):
            sum(range(10000))
        else:
            time.sleep(min(0.05, max(0.0, until - time.monotonic())))
        if every and time.monotonic() - said >= every:
            said = time.monotonic()
            say(f"load: {until - said:.2f} s to go")


def main() -> None:
    if "--version" in sys.argv:
        say("version: fake 1.0")
        return
    if "--list-devices" in sys.argv:
        # As llama-server prints them.
        say(
            "Available devices:\n"
            + ("  CUDA0: A card (24576 MiB, 24000 MiB free)" if "--cuda" in sys.argv else "  (none)")
        )
        return
    if "--help" in sys.argv:
        say(FLAGS)
        return
    conduct = json.loads(Path(option("--model")).read_text())
    if conduct.get("term") == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "helper" in conduct:
        helper = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"])
        Path(conduct["helper"]).write_text(str(helper.pid))
    ready = threading.Event()
    server = listen()
    sleep = Sleep(conduct)
    served = (server, conduct.get("alias", option("--alias")), ready, sleep)
    threading.Thread(target=serve, args=served, daemon=True).start()
    load(conduct)
    sleep.worked = time.monotonic()
    if "die" in conduct:
        code, words = conduct["die"]
        say(words)
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)
    ready.set()
    if "after" in conduct:
        time.sleep(conduct["after"])
        say("0.01.0 E something broke inside")
        os._exit(9)
    while True:
        time.sleep(3600)


main()
