"""Install llama.cpp's server as a wheel into an environment of its own, beside the builds that are there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from blazar.engines.install import channels
from blazar.engines.install.builds import build_of, probe, row_of
from blazar.errors import Conflict, DownloadFailed

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.engines.base import Build
    from blazar.store.builds import BuildRows


_LOOK_S = 0.2


def install(
    paths: Paths, rows: BuildRows, tell: Callable[[str], None], *, version: str = "", pip_args: Sequence[str] = ()
) -> Build:
    """Fetch a build; ``version`` empty means the newest. It is not used yet. Blocks for as long as pip takes; an
    exception out of ``tell`` ends it.

    Raises DownloadFailed with pip's last words, Conflict when that version is there already, ConfigError when it does
    not answer. What was begun is removed.
    """
    home = paths.engines / channels.KIND
    home.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".new-", dir=home))
    try:
        wanted = f"{channels.PACKAGE}=={version}" if version else channels.PACKAGE
        _run(wanted, [sys.executable, "-P", "-m", "venv", "--without-pip", str(beside)], tell)
        pip = [
            sys.executable,
            "-P",
            "-m",
            "pip",
            "--python",
            str(beside / "bin" / "python"),
            "install",
            "--no-input",
            "--quiet",
        ]
        _run(wanted, [*pip, *pip_args, wanted], tell)
        tag = next(beside.glob(f"lib/python*/site-packages/{channels.PACKAGE}-*.dist-info")).name.removesuffix(
            ".dist-info"
        )
        target = home / tag
        if target.exists():
            raise Conflict(f"The build {tag} of llama.cpp is installed already.")
        beside.rename(target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    try:
        row = row_of(probe(next(channels.venv(target)).build()), active=False)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    rows.put(row)
    return build_of(row)


def discard(paths: Paths, tag: str) -> None:
    """The files of a build go: aside under another name first, so that half of one is never taken for a build."""
    home = paths.engines / channels.KIND
    aside = Path(tempfile.mkdtemp(prefix=".gone-", dir=home))
    (home / tag).rename(aside / tag)
    shutil.rmtree(aside, ignore_errors=True)


def owned(paths: Paths, tag: str) -> bool:
    """The build is in a folder that we made."""
    folder = paths.engines / channels.KIND / tag
    return (folder / "pyvenv.cfg").is_file() or (folder / channels.RECORD).is_file()


def _run(what: str, argv: Sequence[str], tell: Callable[[str], None]) -> None:
    """To its end, or to an exception out of ``tell``, which is called again and again meanwhile."""
    with tempfile.TemporaryFile("w+", errors="replace") as words:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=words, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            while (code := child.poll()) is None:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(_LOOK_S)
                tell(what)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        if code:
            words.seek(0)
            said = " | ".join(words.read().strip().splitlines()[-3:])
            raise DownloadFailed(what, f"pip ended with code {code}: {said}")
