"""Changing config.toml: comments stay, the result is checked before anything is written, and the old file is kept.

Writers take turns on a lock file, so that two commands at once lose no change.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from blazar.config import load, options
from blazar.config.paths import Paths
from blazar.errors import ConfigError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

KEPT_BACKUPS = 10


def get(paths: Paths, key: str) -> load.Setting:
    """What ``key`` is now and who said so."""
    options.find(key)
    return next(setting for setting in load.explain(paths) if setting.key == key)


def put(paths: Paths, key: str, text: str) -> options.Value:
    """Set ``key`` to what ``text`` says (a list is split at commas); returns the value."""
    option = options.find(key)
    value = options.parse(option, text, f"'{key}'")

    def edit(document: TOMLDocument) -> None:
        import tomlkit  # noqa: PLC0415 (slow to import, and most commands never write)

        if option.section not in document:
            document[option.section] = tomlkit.table()
        document[option.section][option.name] = list(value) if isinstance(value, tuple) else value

    change(paths, edit)
    return value


def drop(paths: Paths, key: str) -> bool:
    """Take ``key`` out of the file, so that its default holds again; ``False`` if it was not there.

    An unknown key may be dropped too: that is how a wrong file is mended.
    """
    section, _, name = key.partition(".")
    dropped = False

    def edit(document: TOMLDocument) -> None:
        nonlocal dropped
        table = document.get(section)
        if name and isinstance(table, dict) and name in table:
            del table[name]
            dropped = True
            if not table:
                del document[section]
        elif not name and section in document and section not in {o.section for o in options.table().values()}:
            del document[section]
            dropped = True

    change(paths, edit)
    if not dropped:
        options.find(key)
    return dropped


def write(paths: Paths, text: str) -> Path | None:
    """Make ``text`` the config, checked first and all or nothing; returns the backup of what was there before.

    A link is followed, so that a config kept elsewhere stays there; the mode stays, a new file is the owner's alone.

    :raises ConfigError: when the text is not a right config, or the place cannot be written. Nothing has changed then.
    """
    load.check(text, paths.config_file)
    file = paths.config_file.resolve()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_bytes() if file.exists() else None
        if before == text.encode():
            return None
        backup = _back_up(file, before) if before is not None else None
        _replace(file, text.encode(), mode=file.stat().st_mode & 0o777 if before is not None else 0o600)
    except OSError as fault:
        raise ConfigError(f"{file} cannot be written: {fault.strerror}.") from fault
    return backup


def backups(paths: Paths) -> tuple[Path, ...]:
    """The kept former versions, oldest first."""
    file = paths.config_file.resolve()
    return tuple(sorted(file.parent.glob(f"{file.name}.2*Z")))


def change(paths: Paths, edit: Callable[[TOMLDocument], None]) -> None:
    """Have ``edit`` change the file's document; all or nothing, and one at a time."""
    import tomlkit  # noqa: PLC0415 (slow to import, and most commands never write)
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    with _turn(paths):
        file = paths.config_file
        text = file.read_text("utf-8") if file.exists() else ""
        try:
            document = tomlkit.parse(text)
        except TOMLKitError as fault:
            raise ConfigError(f"{file} is not valid TOML: {fault}. Mend it: blazar config edit") from fault
        edit(document)
        write(paths, tomlkit.dumps(document))


@contextmanager
def _turn(paths: Paths) -> Iterator[None]:
    try:
        paths.config.mkdir(parents=True, exist_ok=True)
        lock = os.open(paths.config / ".config.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as fault:
        raise ConfigError(f"{paths.config} cannot be written: {fault.strerror}.") from fault
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _back_up(file: Path, content: bytes) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    backup = file.with_name(f"{file.name}.{stamp}")
    _replace(backup, content, mode=file.stat().st_mode & 0o777)
    former = sorted(file.parent.glob(f"{file.name}.2*Z"))
    for old in former[:-KEPT_BACKUPS]:
        old.unlink(missing_ok=True)
    return backup


def _replace(file: Path, content: bytes, mode: int) -> None:
    """Write beside, flush to the disk, rename over: a reader or a power cut sees the old file or the new one."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
