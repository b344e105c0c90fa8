"""Wheels read as what they are, zip files with a list of hashes, without installing them."""

from __future__ import annotations

import base64
import csv
import hashlib
import re
import stat
import zipfile
import zlib
from collections.abc import Callable
from email.parser import BytesParser
from pathlib import Path, PurePosixPath

import msgspec

from blazar.errors import DownloadFailed

_BLOCK = 1 << 20
_HASHES = ("sha256", "sha384", "sha512")


class Member(msgspec.Struct, frozen=True):
    """One file inside a wheel: its path there, its size unpacked in bytes, and the hash that RECORD gives it."""

    path: str
    size: int
    algorithm: str
    digest: bytes
    executable: bool

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name


class Wheel:
    """An open wheel whose paths and list of hashes were checked. Use as a context manager.

    Opening raises ``DownloadFailed`` when the file is no zip, when a path in it would lead out of the folder it is
    unpacked to, when it holds a link or an encrypted file, or when a file is not in RECORD with a hash.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise self._bad(str(error)) from error
        try:
            self._infos = self._checked()
            self._info_folder = self._find_info_folder()
            self.members = self._listed()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Wheel:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def copy(self, member: Member, write: Callable[[bytes], object]) -> None:
        """Give the unpacked bytes to ``write`` in pieces; at the end the hash must be the one in RECORD."""
        digest = hashlib.new(member.algorithm)
        try:
            with self._zip.open(self._infos[member.path]) as source:
                while piece := source.read(_BLOCK):
                    digest.update(piece)
                    write(piece)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise self._bad(f"{member.path}: {error}") from error
        if digest.digest() != member.digest:
            raise self._bad(f"{member.path} does not have the hash that RECORD gives")

    def read(self, member: Member, most: int = 1 << 20) -> bytes:
        """The whole of a small file, checked. Raises ``DownloadFailed`` when it is larger than ``most`` bytes."""
        if member.size > most:
            raise self._bad(f"{member.path} is larger than {most} bytes")
        pieces: list[bytes] = []
        self.copy(member, pieces.append)
        return b"".join(pieces)

    def first_bytes(self, member: Member, count: int) -> bytes:
        """The first bytes of a file, unchecked: enough to know its kind."""
        try:
            with self._zip.open(self._infos[member.path]) as source:
                return source.read(count)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise self._bad(f"{member.path}: {error}") from error

    def requirements(self) -> tuple[str, ...]:
        """What the package always depends on, as ``name==1.0``; requirements of extras and markers are left out."""
        path = f"{self._info_folder}/METADATA"
        member = next((m for m in self.members if m.path == path), None)
        if member is None:
            raise self._bad("it has no METADATA")
        fields = BytesParser().parsebytes(self.read(member), headersonly=True)
        plain = [line for line in fields.get_all("Requires-Dist") or [] if ";" not in line]
        return tuple(re.sub(r"[()\s]", "", line) for line in plain)

    def _checked(self) -> dict[str, zipfile.ZipInfo]:
        infos: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            path = PurePosixPath(info.filename)
            if path.is_absolute() or ".." in path.parts or "\\" in info.filename or ":" in info.filename:
                raise self._bad(f"the path {info.filename!r} leads out of the package")
            if info.is_dir():
                continue
            mode = info.external_attr >> 16
            if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
                raise self._bad(f"{info.filename} is a link or a device")
            if info.flag_bits & 0x1:
                raise self._bad(f"{info.filename} is encrypted")
            if str(path) in infos:
                raise self._bad(f"{info.filename} is in it twice")
            infos[str(path)] = info
        return infos

    def _find_info_folder(self) -> str:
        folders = {p.split("/", 1)[0] for p in self._infos if re.fullmatch(r"[^/]+\.dist-info/RECORD", p)}
        if len(folders) != 1:
            raise self._bad("it has no RECORD")
        return folders.pop()

    def _listed(self) -> tuple[Member, ...]:
        record = f"{self._info_folder}/RECORD"
        if self._infos[record].file_size > 64 << 20:
            raise self._bad("its RECORD is larger than 64 MiB")
        try:
            rows = csv.reader(self._zip.read(record).decode().splitlines())
            hashes = {row[0]: row[1] for row in rows if len(row) >= 2}
        except (UnicodeDecodeError, csv.Error, zipfile.BadZipFile, zlib.error) as error:
            raise self._bad(f"its RECORD cannot be read ({error})") from error
        # RECORD cannot list its own hash, nor can a signature over it be listed.
        signatures = {record, record + ".jws", record + ".p7s"}
        return tuple(
            Member(
                path, info.file_size, *self._hash(path, hashes.get(path, "")), bool(info.external_attr >> 16 & 0o100)
            )
            for path, info in self._infos.items()
            if path not in signatures
        )

    def _hash(self, path: str, listed: str) -> tuple[str, bytes]:
        algorithm, _, value = listed.partition("=")
        try:
            digest = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
        except ValueError as error:
            raise self._bad(f"RECORD has no usable hash for {path}") from error
        if algorithm not in _HASHES or len(digest) != hashlib.new(algorithm).digest_size:
            raise self._bad(f"RECORD has no SHA-256 or stronger hash for {path}")
        return algorithm, digest

    def _bad(self, reason: str) -> DownloadFailed:
        return DownloadFailed(self.path.name, f"the wheel is damaged or unsafe: {reason}")


def unpack(wheel: Path, into: Path) -> tuple[Path, ...]:
    """Unpack every file of the wheel under the empty folder ``into``, each checked against RECORD; their paths."""
    unpacked: list[Path] = []
    with Wheel(wheel) as opened:
        for member in opened.members:
            target = into / member.path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                opened.copy(member, file.write)
            if member.executable:
                target.chmod(0o755)
            unpacked.append(target)
    return tuple(unpacked)
