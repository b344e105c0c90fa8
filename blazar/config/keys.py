"""API keys as ``[[keys]]`` of the config and ``BLAZAR_KEYS`` hold them. Of a secret only its SHA-256 is written down.

A secret is 128 random bits, so a plain hash cannot be reversed. Whoever writes a secret of his own into the file or the
variable is taken at his word, as long as it is not short.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from blazar.config.schema import KeyEntry
from blazar.errors import BadRequest, ConfigError, Conflict, NotFound

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from blazar.config.paths import Paths

PREFIX = "plm_"
VARIABLE = "BLAZAR_KEYS"
_HASH = "sha256:"
_SHORTEST = 16
_SHOWN = 8
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def digest(secret: str) -> str:
    """What is kept of a secret."""
    return _HASH + hashlib.sha256(secret.encode()).hexdigest()


def kept(entry: KeyEntry) -> str:
    """The digest of an entry, which holds it or the secret itself."""
    return entry.key if entry.key.startswith(_HASH) else digest(entry.key)


def hint(entry: KeyEntry) -> str:
    """The first characters of its secret, where they are known."""
    return entry.hint or ("" if entry.key.startswith(_HASH) else f"{entry.key[:_SHOWN]}...")


def from_environment(env: Mapping[str, str]) -> tuple[KeyEntry, ...]:
    """Those of ``BLAZAR_KEYS``: ``name=secret`` with commas between, or a JSON array of what ``[[keys]]`` has.

    :raises ConfigError: without a word of what the variable holds.
    """
    text = env.get(VARIABLE, "").strip()
    if not text:
        return ()
    if text.startswith("["):
        try:
            entries = msgspec.json.decode(text, type=tuple[KeyEntry, ...])
        except msgspec.DecodeError as fault:
            raise ConfigError(f"The variable {VARIABLE} is no JSON array of keys: {_silent(fault)}.") from None
    else:
        pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
        if not all(name and secret for name, _, secret in pairs):
            raise ConfigError(f"The variable {VARIABLE} holds name=secret, with commas between.")
        entries = tuple(KeyEntry(name=name, key=secret) for name, _, secret in pairs)
    check(entries, f"The variable {VARIABLE}")
    return entries


def owners(name: str, secret: str) -> KeyEntry:
    """The key of whoever owns this machine; its name is none that another can have."""
    return KeyEntry(name=name, key=digest(secret))


def check(entries: Sequence[KeyEntry], where: str) -> None:
    """Whether they can stand together. ``where`` opens the sentence of the ConfigError, which shows no secret."""
    names: set[str] = set()
    digests: set[str] = set()
    for number, entry in enumerate(entries, 1):
        if not _NAME.fullmatch(entry.name):
            raise ConfigError(f"{where}: the name of key {number} takes letters, digits, '.', '_' and '-', at most 64.")
        hashed = entry.key.startswith(_HASH)
        if hashed and not re.fullmatch(r"sha256:[0-9a-f]{64}", entry.key):
            raise ConfigError(f"{where}: the key '{entry.name}' has a digest that is none.")
        if not hashed and (len(entry.key) < _SHORTEST or not entry.key.isascii() or not entry.key.isprintable()):
            raise ConfigError(
                f"{where}: the secret of the key '{entry.name}' needs at least {_SHORTEST} plain characters. "
                f"Let one be made: blazar keys add {entry.name}"
            )
        if entry.name in names or kept(entry) in digests:
            raise ConfigError(f"{where}: the key '{entry.name}' is there twice.")
        names.add(entry.name)
        digests.add(kept(entry))


def explain(tables: Any, where: str) -> ConfigError:
    """What is wrong with the ``keys`` of a file that cannot be read as such, without a word of the secrets in it."""
    if not isinstance(tables, list):
        return ConfigError(f"{where}: each key is a table of its own and must be written [[keys]].")
    for number, table in enumerate(tables, 1):
        try:
            msgspec.convert(table, KeyEntry)
        except msgspec.ValidationError as fault:
            return ConfigError(f"{where}: key {number}: {_silent(fault)}.")
    return ConfigError(f"{where}: the keys cannot be read.")


def add(paths: Paths, entry: KeyEntry) -> str:
    """Write a new key into the file; its secret, which nobody can learn any more. ``entry.key`` is not read.

    :raises Conflict: when one of that name is there.
    """
    secret = PREFIX + secrets.token_hex(16)

    def change(document: TOMLDocument) -> None:
        import tomlkit  # noqa: PLC0415 (slow to import, and most commands never write)

        array = document.setdefault("keys", tomlkit.aot())
        if any(table.get("name") == entry.name for table in array):
            raise Conflict(
                f"There is a key '{entry.name}' already. Give it a new secret: blazar keys rotate {entry.name}"
            )
        table = tomlkit.table()
        for name, value in _fields(entry, secret).items():
            table[name] = value
        array.append(table)

    if not _NAME.fullmatch(entry.name):
        raise BadRequest("The name of a key takes letters, digits, '.', '_' and '-', at most 64.", param="name")
    _change(paths, change)
    return secret


def remove(paths: Paths, name: str, *, last: bool = False) -> None:
    """Take a key out of the file. Without keys, everybody may do everything: only with ``last`` does the last one go.

    :raises NotFound: when there is none of that name.
    :raises Conflict: when it is the last, or comes from the variable.
    """

    def change(document: TOMLDocument) -> None:
        array = document.get("keys") or []
        place = _place(array, name)
        if len(array) == 1 and not last and not from_environment(os.environ):
            raise Conflict(
                f"'{name}' is the last key: without it, everybody may do everything. To have it so: "
                f"blazar keys rm {name} --last"
            )
        del array[place]
        if not array:
            del document["keys"]

    _change(paths, change)


def rotate(paths: Paths, name: str) -> str:
    """Give a key a new secret, which is answered; the old one is worth nothing any more.

    :raises NotFound: when there is none of that name.
    """
    secret = PREFIX + secrets.token_hex(16)

    def change(document: TOMLDocument) -> None:
        array = document.get("keys") or []
        table = array[_place(array, name)]
        table["key"] = digest(secret)
        table["hint"] = secret[:_SHOWN] + "..."

    _change(paths, change)
    return secret


def _change(paths: Paths, change: Any) -> None:
    from blazar.config.edit import change as edit  # noqa: PLC0415 (it reads this module through the loader)

    edit(paths, change)


def _place(array: Any, name: str) -> int:
    for place, table in enumerate(array):
        if table.get("name") == name:
            return place
    if any(entry.name == name for entry in from_environment(os.environ)):
        raise Conflict(f"The key '{name}' is set by the variable {VARIABLE}; change it there.")
    raise NotFound(f"key '{name}'")


def _fields(entry: KeyEntry, secret: str) -> dict[str, object]:
    """What the file has of an entry; what is at its default is left out."""
    usual = KeyEntry(name="", key="")
    found: dict[str, object] = {"name": entry.name, "key": digest(secret), "hint": secret[:_SHOWN] + "..."}
    for name in ("models", "rpm", "tpm", "daily_tokens", "max_concurrent", "weight"):
        value = getattr(entry, name)
        if value != getattr(usual, name):
            found[name] = list(value) if isinstance(value, tuple) else value
    return found


def _silent(fault: msgspec.MsgspecError) -> str:
    """The fault's own words: they name types, fields and places, never a value; a value quoted in them is cut."""
    return re.sub(r"'[^']{40,}'", "'...'", str(fault))
