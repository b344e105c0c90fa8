"""What other tools on this machine hold already: found where they keep it, to be used without copying a byte.

Ollama: ``manifests/HOST/NAMESPACE/NAME/TAG`` names layers, which lie in ``blobs/``. The Hugging Face hub's cache:
``models--ORG--REPO/snapshots/COMMIT``, links into ``blobs/``. LM Studio: ``PUBLISHER/REPO/FILE``. llama.cpp: one
folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from blazar.errors import BadModelFile, BlazarError
from blazar.models import header, shards
from blazar.models.manifest import Layer, Manifest
from blazar.models.overlay import Overlay
from blazar.models.reference import check_name, name_from

TOOLS = ("ollama", "hf", "lmstudio", "llamacpp")
_MANIFEST = 1024 * 1024
_DIGEST = re.compile(r"(?:sha256[:-])?([0-9a-f]{64})")


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A model that another tool has. ``digest`` is the SHA-256 that the tool checked and named the file by, or nothing;
    ``why`` says why it cannot be used here, or nothing.
    """

    tool: str
    name: str
    path: Path = Path()
    digest: str = ""
    projector: Path | None = None
    overlay: Overlay = msgspec.field(default_factory=Overlay)
    adapters: tuple[Path, ...] = ()
    why: str = ""


def find(tool: str, env: Mapping[str, str]) -> list[Held]:
    """Everything that ``tool`` (one of :data:`TOOLS`) holds for the user of ``env``, by name."""
    home = Path(env.get("HOME") or "~").expanduser()
    cache = Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    finders: dict[str, tuple[Callable[[Path], Iterator[Held]], list[Path]]] = {
        "ollama": (_ollama, _roots(env, "OLLAMA_MODELS", home / ".ollama/models", "/usr/share/ollama/.ollama/models")),
        "hf": (_hub, _roots(env, "HF_HUB_CACHE", Path(env.get("HF_HOME") or cache / "huggingface") / "hub")),
        "lmstudio": (_lmstudio, _roots(env, "", home / ".lmstudio/models", cache / "lm-studio/models")),
        "llamacpp": (_llamacpp, _roots(env, "LLAMA_CACHE", cache / "llama.cpp")),
    }
    finder, roots = finders[tool]
    found: dict[str, Held] = {}
    for root in roots:
        for held in finder(root):
            found.setdefault(held.name, held)
    return sorted(found.values(), key=lambda held: held.name)


def _roots(env: Mapping[str, str], variable: str, *usual: str | Path) -> list[Path]:
    """What the variable says, or the usual places; those that are there."""
    named = env.get(variable) if variable else None
    return [path for path in map(Path, [named] if named else usual) if _is_folder(path)]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # somebody else's
        return False


# Ollama.


def _ollama(root: Path) -> Iterator[Held]:
    base = root / "manifests"
    for path in sorted(base.rglob("*")):
        if not path.is_file() or len(parts := path.relative_to(base).parts) < 3:
            continue
        host, *middle, tag = parts
        if middle[0] == "library":
            middle = middle[1:]
        # Of the usual registry and namespace, people leave out both.
        short = "/".join(middle if host.startswith("registry.") else [host, *middle])
        try:
            yield _of_manifest(root, check_name(f"{short}:{tag}"), path)
        except BlazarError as error:
            yield Held(tool="ollama", name=f"{short}:{tag}", why=error.message)
        except (OSError, msgspec.DecodeError) as error:
            yield Held(tool="ollama", name=f"{short}:{tag}", why=f"what Ollama keeps of it cannot be read: {error}")


def _of_manifest(root: Path, name: str, path: Path) -> Held:
    found = msgspec.json.decode(_small(path), type=Manifest)
    if found.why_not:
        return Held(tool="ollama", name=name, why=found.why_not)
    (weighs,) = found.of("model")
    weights = _blob(root, weighs)
    if not weights.is_file():
        return Held(tool="ollama", name=name, why=f"its file {weights} is missing")
    eyes = found.of("projector")
    return Held(
        tool="ollama",
        name=name,
        path=weights,
        digest=f"sha256:{weighs.sha256}",
        projector=_blob(root, eyes[0]) if eyes else None,
        adapters=tuple(_blob(root, layer) for layer in found.of("adapter")),
        overlay=found.overlay(
            lambda layer: _small(_blob(root, layer)).decode("utf-8", "replace"), header.read(weights).chat_template
        ),
    )


def _blob(root: Path, layer: Layer) -> Path:
    return root / "blobs" / f"sha256-{layer.sha256}"


def _small(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MANIFEST)


# Folders of files.


def _hub(root: Path) -> Iterator[Held]:
    for repository in sorted(root.glob("models--*")):
        main = repository / "refs" / "main"
        commits = sorted(repository.glob("snapshots/*"), key=lambda path: path.stat().st_mtime_ns)
        if main.is_file():
            commits.append(repository / "snapshots" / main.read_text().strip())
        if commits:
            yield from _files("hf", commits[-1])


def _lmstudio(root: Path) -> Iterator[Held]:
    for folder in sorted(root.glob("*/*")):
        if folder.is_dir():
            yield from _files("lmstudio", folder)


def _llamacpp(root: Path) -> Iterator[Held]:
    yield from _files("llamacpp", root)


def _files(tool: str, folder: Path) -> Iterator[Held]:
    """The models of a folder; a projector belongs to all that lie beside it."""
    eyes: Path | None = None
    models: list[tuple[Path, str]] = []
    for path in sorted(folder.rglob("*.gguf")):
        if shards.siblings(path.name)[0] != path.name:
            continue
        try:
            facts = header.read(path)
        except (BadModelFile, OSError) as error:
            yield Held(tool=tool, name=name_from(path.name), path=path, why=str(error))
            continue
        if facts.kind == "mmproj":
            eyes = path
        else:
            models.append((path, name_from(path.name, facts.quantization)))
    # In a folder of many repositories nobody knows whose it is.
    shared = eyes if tool != "llamacpp" else None
    for path, name in models:
        yield Held(tool=tool, name=name, path=path, digest=_named_by_digest(path), projector=shared)


def _named_by_digest(path: Path) -> str:
    """The hub's cache names large files by their SHA-256."""
    found = _DIGEST.fullmatch(Path(os.path.realpath(path)).name)
    return f"sha256:{found[1]}" if found and path.is_symlink() else ""
