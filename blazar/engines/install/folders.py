"""The folders of builds: each appears under its tag when it is whole, and goes the same way."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from blazar.engines.install import channels
from blazar.engines.install.builds import build_of, probe, row_of
from blazar.errors import Conflict
from blazar.models import lock

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.engines.base import Build
    from blazar.store.builds import BuildRows

_GONE = ".gone-"
_NEW = ".new-"
_COMPILING = ".build-"
_LEFT = (_GONE, _NEW, _COMPILING, ".fetch-")
_DAY_S = 86_400


def home(paths: Paths) -> Path:
    """Where the builds of llama.cpp are."""
    folder = paths.engines / channels.KIND
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def workshop(paths: Paths, tag: str) -> Path:
    """Where ``tag`` is compiled; what is there when that is broken off is gone on with."""
    return home(paths) / f"{_COMPILING}{tag}"


@contextmanager
def growing(paths: Paths) -> Iterator[Path]:
    """A folder beside the builds for one that becomes; what is left of it at the end goes."""
    folder = Path(tempfile.mkdtemp(prefix=_NEW, dir=home(paths)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ensure_new(paths: Paths, tag: str) -> None:
    """Raises Conflict when there is a build of that tag."""
    if (home(paths) / tag).exists():
        raise Conflict(f"The build {tag} of llama.cpp is installed already.")


def settle(paths: Paths, rows: BuildRows, grown: Path, tag: str) -> Build:
    """Give a finished folder its name, and ask the build what it can. Raises Conflict; ConfigError when it does not
    answer: then it goes.
    """
    ensure_new(paths, tag)
    target = home(paths) / tag
    grown.rename(target)
    try:
        found = next(one for one in (*channels.recorded(paths), *channels.venv(target)) if one.tag == tag)
        row = row_of(probe(found.build()), active=False)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    rows.put(row)
    return build_of(row)


def discard(paths: Paths, tag: str) -> None:
    """The files of a build go: aside under another name first, so that half of one is never taken for a build."""
    aside = Path(tempfile.mkdtemp(prefix=_GONE, dir=home(paths)))
    (home(paths) / tag).rename(aside / tag)
    shutil.rmtree(aside, ignore_errors=True)


def owned(paths: Paths, tag: str) -> bool:
    """The build is in a folder that we made."""
    folder = paths.engines / channels.KIND / tag
    return (folder / "pyvenv.cfg").is_file() or (folder / channels.RECORD).is_file()


def sweep(paths: Paths) -> tuple[str, ...]:
    """Let go what work left that was broken off: half a download, half a build. What somebody works on now stays."""
    gone = []
    for path in sorted(home(paths).glob(".*")):
        if not path.is_dir() or not path.name.startswith(_LEFT):
            continue
        # Nobody holds a lock on a folder that becomes a build within minutes.
        young = path.name.startswith(_NEW) and time.time() - path.stat().st_mtime < _DAY_S
        if not young and lock.holder(path.with_suffix(".lock")) is None:
            shutil.rmtree(path, ignore_errors=True)
            gone.append(path.name)
    return tuple(gone)
