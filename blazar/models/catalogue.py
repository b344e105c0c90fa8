"""The models on disk, by name. Rows live in the store; other processes may write them at any time."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from blazar.clock import Clock, SystemClock
from blazar.errors import BadRequest, Conflict, ModelNotFound
from blazar.models import header, reference
from blazar.models.header import Header
from blazar.models.overlay import adapters
from blazar.models.reference import fold, source_key
from blazar.store.models import ModelRow as Model

if TYPE_CHECKING:
    from blazar.store import Store

__all__ = ["Catalogue", "Model"]

_FRESH_NS = 100_000_000
_HEADERS = 16
_NEAR = 3


class Catalogue:
    """Finds models. A name is equal to another regardless of case, and with or without ``:latest``.

    What another process wrote is seen at once where it makes a name known, and after a tenth of a second where it takes
    one away.
    """

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._version: tuple[int, int] | None = None
        self._checked_ns = 0
        self._models: tuple[Model, ...] = ()
        self._found: dict[str, Model] = {}
        self._headers: dict[tuple[str, int, int], Header] = {}

    def list(self) -> tuple[Model, ...]:
        """Every model, the newest first."""
        self.refresh()
        return self._models

    def find(self, name: str) -> Model:
        """The model that ``name`` means: its name, the source it was pulled from, or its name without the tag where
        only one has it. Raises ModelNotFound with the nearest names.
        """
        if self._clock.monotonic_ns() - self._checked_ns > _FRESH_NS:
            self.refresh()
        model = self._found.get(name)
        if model is None:
            self.refresh()
            model = self._look(name)
            if len(self._found) > 4096:
                self._found.clear()  # names come from clients
            self._found[name] = model
        return model

    def from_source(self, source: str) -> Model | None:
        """The model that was pulled from there, if its files are all here."""
        key = source_key(source)
        return next((one for one in self.list() if source_key(one.source) == key and not self.missing(one)), None)

    def file_of(self, digest: str) -> Path | None:
        """A file of ours that has this ``sha256:…`` and was not changed since, if there is one."""
        for model in self.list():
            if model.digest == digest and model.owned and len(model.files) == 1 and not self.missing(model):
                path = Path(model.files[0])
                if path.stat().st_size == model.size:
                    return path
        return None

    def missing(self, model: Model) -> bool:
        """A file of it is not where it was."""
        return bool(self.lost(model))

    def lost(self, model: Model) -> str:
        """The first of its files that is not where it was, if any."""
        files = (*model.files, *(one.path for one in adapters(model.overlay)))
        return next((path for path in files if not Path(path).is_file()), "")

    def add(self, model: Model) -> Model:
        """Keep it. Raises Conflict when another model has the name."""
        with self._store.transaction():
            before = next((row for row in self._store.models.list() if fold(row.name) == fold(model.name)), None)
            if before is not None and before.files != model.files:
                raise Conflict(
                    f"There is a model named '{before.name}' already. Choose another name, or remove it first."
                )
            self._store.models.put(model)
        return model

    def remove(self, model: Model) -> tuple[Path, ...]:
        """Forget it. The files that it owned and no other model uses, for the caller to delete."""
        with self._store.transaction():
            self._store.models.delete(model.name)
            if not model.owned:
                return ()
            files = (*model.files, *((model.projector,) if model.projector else ()))
            unused = {path for path in files if not self._store.models.users_of(path)}
            worn = {one.path for row in self._store.models.list() for one in adapters(row.overlay)}
            return tuple(map(Path, unused | {one.path for one in adapters(model.overlay)} - worn))

    def free_name(self, wanted: str) -> str:
        """``wanted``, or with a number where that is taken."""
        taken = {fold(model.name) for model in self.list()}
        base, colon, tag = wanted.partition(":")
        names = (wanted if number == 1 else f"{base}-{number}{colon}{tag}" for number in range(1, len(taken) + 2))
        return next(name for name in names if fold(name) not in taken)

    def header(self, model: Model) -> Header:
        """What the model's file says of itself. Raises BadModelFile."""
        path = Path(model.files[0])
        try:
            stat = path.stat()
        except OSError:
            return header.read(path)  # says best what is wrong
        key = (model.files[0], stat.st_mtime_ns, stat.st_size)
        found = self._headers.get(key)
        if found is None:
            found = header.read(path)
            if len(self._headers) >= _HEADERS:
                self._headers.pop(next(iter(self._headers)))
            self._headers[key] = found
        return found

    def refresh(self) -> None:
        """Look at once what others wrote."""
        self._checked_ns = self._clock.monotonic_ns()
        version = self._store.data_version()
        if version != self._version:
            self._models = self._store.models.list()
            self._found.clear()
            self._version = version

    def _look(self, name: str) -> Model:
        wanted = fold(name)
        for model in self._models:
            if fold(model.name) == wanted:
                return model
        base, plus, variant = wanted.partition("+")
        if plus:  # the base by any of its names
            wanted = fold(f"{self._look(base).name.removesuffix(':latest')}+{variant}")
            for model in self._models:
                if fold(model.name) == wanted:
                    return model
            raise ModelNotFound(name, list(self._near(wanted)))
        same = list(self._from(name))
        same = same or [
            model for model in self._models if "+" not in model.name and reference.base(model.name).lower() == wanted
        ]
        if len(same) == 1:
            return same[0]
        if same:
            raise ModelNotFound(name, [model.name for model in same])
        raise ModelNotFound(name, list(self._near(wanted)))

    def _from(self, name: str) -> Iterator[Model]:
        """The models that came from what ``name`` says, be it all of it or a repository without a quantisation."""
        try:
            wanted = reference.parse(name)
            wanted = reference.origin(wanted) if wanted.kind == "name" else wanted
        except BadRequest:
            return
        keys = {source_key(wanted.source), *(source_key(one.source) for one in reference.spellings(wanted))}
        for model in self._models:
            key = source_key(model.source)
            if key in keys or (wanted.kind == "hub" and not wanted.tag and key.startswith(f"{min(keys)}:")):
                yield model

    def _near(self, wanted: str) -> Iterator[str]:
        names = {fold(model.name): model.name for model in self._models}
        bases = {reference.base(key): value for key, value in names.items()}
        close = difflib.get_close_matches(wanted[:200], [*names, *bases], _NEAR)
        yield from dict.fromkeys(names.get(key) or bases[key] for key in close)
