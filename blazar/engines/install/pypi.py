"""Install llama.cpp's server as a wheel into an environment of its own, beside the builds that are there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blazar.engines.install import channels, folders
from blazar.engines.install.child import Failed, Tell, run
from blazar.errors import DownloadFailed

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.engines.base import Build
    from blazar.store.builds import BuildRows


def install(paths: Paths, rows: BuildRows, tell: Tell, *, version: str = "", pip_args: Sequence[str] = ()) -> Build:
    """Fetch a build; ``version`` empty means the newest. It is not used yet. Blocks for as long as pip takes; an
    exception out of ``tell`` ends it.

    Raises DownloadFailed with pip's last words, Conflict when that version is there already, ConfigError when it does
    not answer. What was begun is removed.
    """
    wanted = f"{channels.PACKAGE}=={version}" if version else channels.PACKAGE
    with folders.growing(paths) as beside:
        environment(beside, [wanted], tell, pip_args)
        facts = next(beside.glob(f"lib/python*/site-packages/{channels.PACKAGE}-*.dist-info"))
        return folders.settle(paths, rows, beside, facts.name.removesuffix(".dist-info"))


def environment(home: Path, packages: Sequence[str], tell: Tell, pip_args: Sequence[str] = ()) -> None:
    """A virtual environment at ``home`` with these packages. Raises DownloadFailed with pip's last words."""
    what = ", ".join(packages)
    pip = [sys.executable, "-P", "-m", "pip", "--python", str(home / "bin" / "python")]
    try:
        run("venv", [sys.executable, "-P", "-m", "venv", "--without-pip", str(home)], tell, what)
        run("pip", [*pip, "install", "--no-input", "--quiet", *pip_args, *packages], tell, what)
    except Failed as failed:
        raise DownloadFailed(what, str(failed)) from failed
