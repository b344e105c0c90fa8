"""Who is measured: the engine alone, nginx before it, Blazar before it. Each is started, watched and stopped alike."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from benches.load.machine import Cost, cost
from tests.support import tiny_model

ENGINE = "mock-engine"
SLOTS = 256
_START_S = 30.0

NGINX = """worker_processes 1; worker_rlimit_nofile 65536; daemon off; pid {home}/nginx.pid; error_log {home}/error.log;
events {{ worker_connections 16384; }}
http {{
  access_log off; client_body_temp_path {home}; proxy_temp_path {home}; fastcgi_temp_path {home};
  uwsgi_temp_path {home}; scgi_temp_path {home}; keepalive_requests 1000000;
  upstream engine {{ server {upstream}; keepalive 600; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""


class Missing(Exception):
    """A subject cannot be measured here; the sentence says why."""


class Subject:
    """One running server. ``address`` is ``HOST:PORT``, ``cold_start_s`` the time to its first 200."""

    name = "direct"

    def __init__(self, home: Path, tools: Path, core: int | None) -> None:
        self.home = home / self.name
        self.tools = tools
        self.core = core
        self.port = _free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.models = ["mock"]
        self.cold_start_s = 0.0
        self.process: subprocess.Popen[bytes] | None = None
        self.home.mkdir(parents=True)

    def command(self) -> list[str]:
        """How it is started."""
        return [str(self.tools / ENGINE), "-a", "mock", "--port", str(self.port), "-np", "1024", "-c", "1048576"]

    def environment(self) -> dict[str, str]:
        """What it is started with."""
        return {key: value for key, value in os.environ.items() if not key.startswith(("BLAZAR_", "LLAMA_"))}

    def prepare(self) -> None:
        """Whatever is no part of a start."""

    def launch(self, times: int) -> None:
        """Start ``times`` times, and stay up after the last; ``cold_start_s`` is their median."""
        self.prepare()
        took = []
        for left in reversed(range(times)):
            self.start()
            took.append(self.cold_start_s)
            if left:
                self.stop()
        self.cold_start_s = median(took)

    def start(self) -> None:
        """Start, and wait for the first 200 of ``/health``."""
        pin = [] if self.core is None else ["taskset", "-c", str(self.core)]
        log = (self.home / "log").open("ab")
        began = time.monotonic()
        self.process = subprocess.Popen(
            [*pin, *self.command()], env=self.environment(), stdout=log, stderr=log, start_new_session=True
        )
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() - began > _START_S:
                self.stop()
                raise Missing(f"{self.name} did not start: {self.words()}")
            time.sleep(0.002)
        self.cold_start_s = time.monotonic() - began

    def healthy(self) -> bool:
        """It answers."""
        return self.answers("/health")

    def answers(self, path: str) -> bool:
        """There is a 200 for ``path``."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
                link.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
                return link.recv(64).startswith(b"HTTP/1.1 200")
        except OSError:
            return False

    def words(self) -> str:
        """The end of its log."""
        return (self.home / "log").read_text(errors="replace")[-2000:].strip()

    def cost(self) -> Cost:
        """Of its whole process tree; the engines that it started are not its own cost."""
        assert self.process is not None
        return cost(self.process.pid, without="" if self.name == "direct" else ENGINE)

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for the whole session."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, 9)
            self.process.wait(5)


class Nginx(Subject):
    """The floor: a plain reverse proxy that reads nothing of what it carries."""

    name = "nginx"

    def __init__(self, home: Path, tools: Path, core: int | None, upstream: str) -> None:
        super().__init__(home, tools, core)
        self.upstream = upstream

    def command(self) -> list[str]:
        """Nginx with a configuration of its own; its files go into our folder."""
        nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
        if nginx is None:
            raise Missing("nginx is not installed (Debian: nginx-light)")
        file = self.home / "nginx.conf"
        file.write_text(NGINX.format(home=self.home, upstream=self.upstream, port=self.port))
        return [nginx, "-p", str(self.home), "-c", str(file), "-e", str(self.home / "error.log")]


class Blazar(Subject):
    """``blazar serve`` with the stand-in as its llama-server, under two names: one model has at most 256 slots."""

    name = "blazar"

    def __init__(self, home: Path, tools: Path, core: int | None, executable: Path, engine_core: int | None) -> None:
        super().__init__(home, tools, core)
        if not executable.exists():
            raise Missing(f"there is no {executable}")
        self.executable = executable
        self.models = ["mock-a", "mock-b"]
        self.engine = self.home / "llama-server"
        pin = "" if engine_core is None else f"taskset -c {engine_core} "
        self.engine.write_text(f'#!/bin/sh\nexec {pin}"{self.tools / ENGINE}" "$@"\n')
        self.engine.chmod(0o755)

    def command(self) -> list[str]:
        """The daemon in the foreground."""
        return [str(self.executable), "serve"]

    def prepare(self) -> None:
        """Imports the models. The commands also leave byte code behind, which is written once per installation."""
        for seed, model in enumerate(self.models):
            file = self.home / f"{model}.gguf"
            tiny_model.write(file, seed=seed)
            command = [str(self.executable), "import", str(file), "--name", model]
            done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Missing(f"blazar import ended with {done.returncode}: {done.stderr.strip()}")

    def environment(self) -> dict[str, str]:
        """A home of its own, and the stand-in as the engine."""
        return {
            **super().environment(),
            "BLAZAR_HOME": str(self.home),
            "BLAZAR_SERVER_PORT": str(self.port),
            "BLAZAR_ENGINE_LLAMACPP_CHANNEL": "local",
            "BLAZAR_ENGINE_LLAMACPP_PATH": str(self.engine),
            "BLAZAR_ENGINE_SLOTS": str(SLOTS),
            "BLAZAR_ENGINE_CONTEXT": "2048",
        }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
