"""What of a file has come, part by part: kept so that nothing that came is fetched twice, whatever ended the transfer.

``NAME.json`` says what the file is: address, validator, size. ``NAME.parts`` holds two numbers for each part, mapped
into memory: bytes that were written, and bytes that are surely on the disk. Written bytes outlive a killed process;
after a restart of the machine only the sure ones count.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

import msgspec

from blazar.models.files import sync_folder

_PAIR = struct.Struct("<QQ")


class Identity(msgspec.Struct, frozen=True):
    """The state of a file at an address. Parts of files of one identity may be pieced together; without a validator
    there are none. ``digest`` is of the whole file, once it was taken.
    """

    url: str
    validator: str = ""
    total: int | None = None
    part: int = 0
    boot: str = ""
    digest: str = ""


class Ledger:
    """One transfer's account. ``part`` is the size of each part but the last, which may be smaller."""

    def __init__(self, folder: Path, name: str) -> None:
        self.data = folder / f"{name}.partial"
        self._sidecar = folder / f"{name}.json"
        self._account = folder / f"{name}.parts"
        self._map: mmap.mmap | None = None
        self.identity = self._remembered()

    @property
    def count(self) -> int:
        """How many parts there are; one of unknown size where the size is unknown."""
        total, part = self.identity.total, self.identity.part
        return max(1, -(-total // part)) if total is not None and part else 1

    @property
    def brought(self) -> int:
        """Bytes that have come."""
        return sum(self.done(number) for number in range(self.count))

    def begin(self, identity: Identity) -> None:
        """A new file: nothing of it has come."""
        self.close()
        self.identity = msgspec.structs.replace(identity, boot=_boot())
        self.data.write_bytes(b"")
        self._account.write_bytes(bytes(_PAIR.size * self.count))
        self._save()
        self._open()

    def take_up(self, url: str) -> bool:
        """Go on with what an earlier life left of this address; False when there is nothing that can be trusted."""
        mine, boot = self.identity, _boot()
        try:
            whole = self._account.stat().st_size == _PAIR.size * self.count and self.data.is_file()
        except OSError:
            whole = False
        if mine.url != url or not mine.validator or mine.total is None or mine.digest or not whole:
            return False
        self._open()
        ends = (self.span(number)[0] + done for number in range(self.count) if (done := self.done(number)))
        if max(ends, default=0) > self.data.stat().st_size:  # somebody cut it
            self.close()
            return False
        if mine.boot != boot:
            for number in range(self.count):
                self.set(number, self._pair(number)[1])
            self.identity = msgspec.structs.replace(mine, boot=boot)
            self._save()
        return True

    def span(self, number: int) -> tuple[int, int | None]:
        """Where a part starts and how long it is."""
        total, part = self.identity.total, self.identity.part
        start = number * part
        return start, None if total is None else min(part or total, total - start)

    def whole(self, number: int) -> bool:
        """All of the part has come."""
        return self.done(number) == self.span(number)[1]

    def done(self, number: int) -> int:
        """Bytes of the part that were written."""
        return self._pair(number)[0]

    def set(self, number: int, done: int) -> None:
        """So many bytes of the part were written."""
        self._put(number, done, min(done, self._pair(number)[1]))

    def synced(self, seen: list[int]) -> None:
        """These many bytes of each part are on the disk now."""
        for number, count in enumerate(seen):
            done, _ = self._pair(number)
            self._put(number, done, min(done, count))

    def finish(self, digest: str, total: int) -> None:
        """The file is whole and has its name."""
        self.close()
        self.identity = msgspec.structs.replace(self.identity, digest=digest, total=total)
        self._save()
        self._account.unlink(missing_ok=True)

    def discard(self) -> None:
        """Nothing of it is left."""
        self.close()
        for path in (self.data, self._sidecar, self._account):
            path.unlink(missing_ok=True)
        self.identity = Identity("")

    def close(self) -> None:
        """Let go of the account; what it says stays."""
        if self._map is not None:
            self._map.close()
            self._map = None

    def _open(self) -> None:
        with self._account.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def _pair(self, number: int) -> tuple[int, int]:
        if self._map is None:
            return 0, 0
        done, synced = _PAIR.unpack_from(self._map, number * _PAIR.size)
        length = self.span(number)[1]
        bound = done if length is None else length  # a torn account must not claim more than there can be
        return min(done, bound), min(synced, bound)

    def _put(self, number: int, done: int, synced: int) -> None:
        if self._map is not None:
            _PAIR.pack_into(self._map, number * _PAIR.size, done, synced)

    def _remembered(self) -> Identity:
        try:
            return msgspec.json.decode(self._sidecar.read_bytes(), type=Identity)
        except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError):
            return Identity("")

    def _save(self) -> None:
        fresh = self._sidecar.with_name(self._sidecar.name + ".new")
        fresh.write_bytes(msgspec.json.encode(self.identity))
        fresh.replace(self._sidecar)
        sync_folder(self._sidecar.parent)


def brought(folder: Path) -> int:
    """Bytes of files, whole and begun, that transfers left below ``folder``. What a transfer has of a file may have
    holes; its account knows.
    """
    total = 0
    for path, _, names in os.walk(folder):
        accounts = {name.removesuffix(".parts") for name in names if name.endswith(".parts")}
        for name in names:
            if name.endswith((".json", ".parts")):
                continue
            file = Path(path) / name
            try:
                if name.removesuffix(".partial") in accounts:
                    pairs = (Path(path) / f"{name.removesuffix('.partial')}.parts").read_bytes()
                    total += sum(done for done, _ in _PAIR.iter_unpack(pairs[: len(pairs) // 16 * 16]))
                else:
                    total += file.stat().st_size
            except FileNotFoundError:
                continue  # it was finished just now
    return total


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
