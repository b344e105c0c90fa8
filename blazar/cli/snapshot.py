"""``blazar snapshot``: a copy of what Blazar knows (the database, the settings), and the way back to it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import click

from blazar import store
from blazar.cli import output
from blazar.cli.place import lives
from blazar.config import edit
from blazar.config.paths import Paths
from blazar.errors import Conflict, NotFound

_DATABASE, _SETTINGS = "blazar.db", "config.toml"
_BESIDE = ("-wal", "-shm")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option("--restore", is_flag=True, help="Go back to the snapshot in FOLDER. The daemon must be stopped.")
def snapshot(folder: Path | None, restore: bool) -> None:
    """Copy the database and the settings to FOLDER (otherwise one of the day and time, under the data).

    Models and engines stay where they are. The copy holds keys as the settings do, hashed, and is open to this user
    alone. It may be made while the daemon works. --restore keeps what is there now in another snapshot first.
    """
    paths = Paths.from_env()
    if not restore:
        kept = _keep(paths, folder.absolute() if folder is not None else paths.snapshots / _now())
        output.notes().line(f"Kept in {kept}. Back to it: blazar snapshot --restore {kept}")
        return
    if folder is None:
        raise click.UsageError("Say which snapshot: its FOLDER.")
    before = _restore(paths, folder.absolute())
    output.notes().line(f"Restored. What was there before is kept in {before}.")


def _keep(paths: Paths, folder: Path) -> Path:
    if folder.exists():
        raise Conflict(f"There is something at {folder} already, and a snapshot overwrites nothing.")
    folder.mkdir(parents=True, mode=0o700)
    try:
        with store.open(paths.database) as opened:
            opened.copy_to(folder / _DATABASE)
        if paths.config_file.exists():
            shutil.copy2(paths.config_file, folder / _SETTINGS)
            (folder / _SETTINGS).chmod(0o600)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _restore(paths: Paths, folder: Path) -> Path:
    """Where what was there before is kept. Nothing changes unless the snapshot is whole."""
    if not (folder / _DATABASE).is_file():
        raise NotFound(f"snapshot in {folder}")
    if lives(paths):
        raise Conflict("The daemon runs, and would not see it. Stop it first: blazar stop")
    before = _keep(paths, paths.snapshots / f"{_now()}-before")
    fresh = before / "fresh.db"  # on the same disk, so that it can take its name at once
    try:
        shutil.copyfile(folder / _DATABASE, fresh)
        store.open(fresh).close()  # says what is wrong with it, and brings it to this version
        if (folder / _SETTINGS).is_file():
            edit.write(paths, (folder / _SETTINGS).read_text())
        for ending in _BESIDE:
            paths.database.with_name(paths.database.name + ending).unlink(missing_ok=True)
        fresh.replace(paths.database)
    finally:
        for ending in ("", *_BESIDE):
            fresh.with_name(fresh.name + ending).unlink(missing_ok=True)
    return before


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%fZ")
