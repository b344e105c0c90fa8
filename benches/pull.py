"""How fast a file comes, with its hash taken, against curl from the same server in the same run.

    python -m benches.pull [--smoke] [--json] [--rounds N] [--megabytes N]

nginx serves the file from memory, and both write it to memory, so that neither network nor disk is measured. The
target: at least 0.8 of curl, which checks nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blazar.models.transfer import download
from tests.support.server import free_port

TARGET = 0.8
_CONF = """worker_processes 1; daemon off; pid {home}/pid; error_log {home}/error.log;
events {{ worker_connections 256; }}
http {{ access_log off; sendfile on; client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
  server {{ listen 127.0.0.1:{port}; root {home}/files; }} }}
"""


@contextmanager
def serving(home: Path, nginx: str) -> Iterator[str]:
    """The address of a server of ``home/files``."""
    port = free_port()
    (home / "nginx.conf").write_text(_CONF.format(home=home, port=port))
    with subprocess.Popen(
        [nginx, "-c", str(home / "nginx.conf"), "-p", str(home)], stderr=subprocess.DEVNULL
    ) as server:
        try:
            time.sleep(0.5)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def main() -> int:
    """Print both rates and their ratio; without ``--smoke`` it fails below the target."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help="64 MB twice, and no judgement")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=1000)
    arguments = parser.parse_args()
    rounds, size = (2, 64) if arguments.smoke else (arguments.rounds, arguments.megabytes)
    curl = shutil.which("curl")
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
    if curl is None or nginx is None:
        sys.stdout.write("not measured: curl or nginx is not installed\n")
        return int(not arguments.smoke)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        home = Path(folder)
        home.chmod(0o755)  # started by root, the server works as nobody
        (home / "files").mkdir()
        with (home / "files/model.gguf").open("wb") as file:
            for _ in range(size):
                file.write(os.urandom(1_000_000))
        ratios, ours, theirs = list[float](), list[float](), list[float]()
        with serving(home, nginx) as url:
            for _ in range(rounds):
                began = time.perf_counter()
                subprocess.run([curl, "-sSf", "-o", str(home / "curl"), f"{url}/model.gguf"], check=True)
                middle = time.perf_counter()
                (home / "curl").unlink()
                again = time.perf_counter()
                download(f"{url}/model.gguf", home / "ours", "model.gguf")
                ended = time.perf_counter()
                shutil.rmtree(home / "ours")
                theirs.append(size / (middle - began))
                ours.append(size / (ended - again))
                ratios.append(ours[-1] / theirs[-1])
    ratio = statistics.median(ratios)
    if arguments.json:
        found = {"curl_mb_s": statistics.median(theirs), "blazar_mb_s": statistics.median(ours), "ratio": ratio}
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write(
            f"curl {statistics.median(theirs):.0f} MB/s, Blazar {statistics.median(ours):.0f} MB/s with its hash; "
            f"ratio {ratio:.2f}, target {TARGET}\n"
        )
    return int(not arguments.smoke and ratio < TARGET)


if __name__ == "__main__":
    sys.exit(main())
