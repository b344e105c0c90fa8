"""From the file and the environment to one checked :class:`Config`. Later ones win: default, file, environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeGuard

import msgspec

from blazar.config.paths import Paths
from blazar.config.schema import Config, KeyEntry
from blazar.errors import ConfigError

Source = Literal["default", "file", "environment"]

_KEYS = "keys"
_SECTIONS: tuple[str, ...] = tuple(name for name in Config.__struct_fields__ if name != _KEYS)


class Setting(msgspec.Struct, frozen=True):
    """What one option is now, and who said so."""

    key: str
    value: str | int | float | bool | tuple[str, ...]
    source: Source


def load(paths: Paths, env: Mapping[str, str] | None = None) -> Config:
    """The config that holds now.

    :raises ConfigError: for a file that cannot be read or is no TOML, an unknown key, a wrong type or value; the
        sentence names the file with its line, or the variable.
    """
    env = os.environ if env is None else env
    tables = read(paths.config_file)
    overrides = from_environment(env)
    for key, value in overrides.items():
        section, _, name = key.partition(".")
        tables.setdefault(section, {})[name] = value
    config = msgspec.convert(tables, Config) if tables else Config()
    if not env.get("BLAZAR_KEYS"):
        return config
    from blazar.config import keys  # noqa: PLC0415 (few have any)

    config = msgspec.structs.replace(config, keys=(*config.keys, *keys.from_environment(env)))
    keys.check(config.keys, f"The variable {keys.VARIABLE}")
    return config


def explain(paths: Paths, env: Mapping[str, str] | None = None) -> tuple[Setting, ...]:
    """Every option with its value and where that came from, in the order of the schema."""
    from blazar.config import options  # noqa: PLC0415 (only for the few commands that show the table)

    env = os.environ if env is None else env
    tables, overrides = read(paths.config_file), from_environment(env)
    config = load(paths, env)
    settings = []
    for option in options.table().values():
        in_file = option.name in tables.get(option.section, {})
        source: Source = "environment" if option.key in overrides else "file" if in_file else "default"
        value = getattr(getattr(config, option.section), option.name)
        settings.append(Setting(option.key, value, source))
    return tuple(settings)


def read(file: Path) -> dict[str, Any]:
    """The checked tables of a config file; none if there is no file."""
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"The settings in {file} cannot be read: {reason}.") from fault
    return check(text, file)


def check(text: str, file: Path) -> dict[str, Any]:
    """The tables of a config's text, found to be right; ``file`` is only named in the :class:`ConfigError`."""
    import tomllib  # noqa: PLC0415 (most commands find no file)

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"{file} is not valid TOML: {fault}.") from fault
    if not tables:
        return {}
    try:
        config = msgspec.convert(tables, Config)
    except msgspec.ValidationError as fault:
        raise _explained(tables, text, file) or ConfigError(f"{file}: {fault}.") from None
    if config.keys:
        from blazar.config import keys  # noqa: PLC0415 (few have any)

        keys.check(config.keys, f"{file}")
    sections = (table for name, table in tables.items() if name != _KEYS)
    if any(value != value for table in sections for value in table.values()):  # noqa: PLR0124 (only NaN does)
        raise _explained(tables, text, file) or ConfigError(f"{file}: a number is missing.")
    return tables


def entries(tables: object) -> tuple[KeyEntry, ...]:
    """The keys of a checked file."""
    return msgspec.convert(tables, tuple[KeyEntry, ...])


def from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    """What ``BLAZAR_<SECTION>_<KEY>`` variables set, by key; a name that begins so and fits no option is refused."""
    prefixes = tuple(f"BLAZAR_{section.upper()}_" for section in _SECTIONS)
    names = [name for name in env if name.startswith(prefixes)]
    if not names:
        return {}
    from blazar.config import options  # noqa: PLC0415 (most runs have no such variable)

    by_env = {option.env: option for option in options.table().values()}
    found: dict[str, Any] = {}
    for name in names:
        option = by_env.get(name)
        if option is None:
            hint = options.closest(name, list(by_env))
            raise ConfigError(f"The environment variable {name} is not a setting.{hint}")
        found[option.key] = options.parse(option, env[name], f"The environment variable {name}")
    return found


def line_of(text: str, key: str) -> int | None:
    """The line, from 1, that sets ``section`` or ``section.name``; ``None`` where the plain forms do not show it."""
    section, _, name = key.partition(".")
    here: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("["):
            here = bare.strip("[] \t").partition("]")[0].strip(" \"'")
            if here == section and not name:
                return number
            continue
        left = bare.partition("=")[0].strip().replace('"', "").replace("'", "")
        full = left if here is None else f"{here}.{left}"
        if "=" in bare and (full == key or (here is None and left == section)):
            return number
    return None


def _explained(tables: Mapping[str, Any], text: str, file: Path) -> ConfigError | None:
    from blazar.config import options  # noqa: PLC0415 (only for a wrong file)

    known = options.table()
    for section, table in tables.items():
        if section == _KEYS:
            if not _fits({section: table}):
                from blazar.config import keys  # noqa: PLC0415 (only for a wrong one)

                return keys.explain(table, _place(text, file, section))
            continue
        if section not in _SECTIONS:
            hint = options.closest(section, list(_SECTIONS))
            return ConfigError(f"{_place(text, file, section)}: there is no section '{section}'.{hint}")
        if not _is_table(table):
            where = _place(text, file, section)
            return ConfigError(f"{where}: '{section}' is a section and must be written [{section}].")
        for name, value in table.items():
            key = f"{section}.{name}"
            where = _place(text, file, key)
            if key not in known:
                return ConfigError(f"{where}: there is no setting '{key}'.{options.nearest(key)}")
            if not _fits({section: {name: value}}):
                wrong = options.wrong(known[key], value, f"'{key}'")
                return ConfigError(f"{where}: {wrong.message}")
    return None


def _fits(tables: dict[str, Any]) -> bool:
    try:
        msgspec.convert(tables, Config)
    except msgspec.ValidationError:
        return False
    sections = (table for name, table in tables.items() if name != _KEYS)
    return all(value == value for table in sections for value in table.values())  # noqa: PLR0124


def _is_table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _place(text: str, file: Path, key: str) -> str:
    line = line_of(text, key)
    return f"{file}:{line}" if line else str(file)
