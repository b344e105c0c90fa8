"""What a model file's own header says: the typed view of the native GGUF reader."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from blazar import _native
from blazar.errors import BadModelFile

# Beyond these, per-layer numbers are not believed and long arrays not shown.
MAX_LAYERS = 16_384
SHORT_ARRAY = 16

# Pooling types of the format: 1 mean, 2 first token, 3 last token, 4 a rank. 0 and absent say nothing.
_EMBEDS, _RANKS = frozenset({1, 2, 3}), 4
_ENCODERS = frozenset(
    {
        "bert", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llama-embed", "modern-bert", "neo-bert",
        "nomic-bert", "nomic-bert-moe", "t5encoder",
    }
)  # fmt: skip
# Files of these kinds accompany a model and do not talk.
_COMPANIONS = frozenset({"mmproj", "adapter", "imatrix", "vocab"})
_JINJA = re.compile(r"\{[%{].*?[%}]\}", re.DOTALL)
_TOOLS = re.compile(r"\b(tools|custom_tools|available_tools)\b")
_THINKS = re.compile(
    r"</?think>|\benable_thinking\b|\breasoning_(content|effort)\b|\[/?THINK\]|<seed:think>|<\|channel\|?>|\bthinking\b"
)


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """One model's header. Lengths are in tokens or elements, sizes in bytes; 0 and empty mean that the file does not
    say.

    A split model is one header: its keys from the first part, its sizes over all parts that are there. The per-layer
    tuples have ``block_count`` entries, or none. ``numbers`` holds further numbers of the architecture under the names
    of the format, without its prefix. ``windows`` are sliding windows by layer (0: none); more often one
    ``sliding_window`` holds for the layers that ``sliding_window_pattern`` marks with 1. ``fills_in``: the vocabulary
    has tokens to fill in a middle; ``sees``: a projector that takes images.
    """

    path: str
    version: int
    byte_order: str
    kind: str
    architecture: str
    name: str
    file_type: int | None
    quantization: str
    parameters: int
    context_length: int
    embedding_length: int
    block_count: int
    head_count: tuple[int, ...]
    head_count_kv: tuple[int, ...]
    key_length: int
    value_length: int
    feed_forward_length: int
    sliding_window: int
    windows: tuple[int, ...]
    sliding_window_pattern: tuple[int, ...]
    recurrent_layers: tuple[int, ...]
    pooling_type: int | None
    numbers: dict[str, int]
    vocab_size: int
    tokenizer_model: str
    tokenizer_pre: str
    bos: int | None
    eos: int | None
    add_bos: bool | None
    add_eos: bool | None
    templates: dict[str, str]
    fills_in: bool
    sees: bool
    capabilities: tuple[str, ...]
    tensor_bytes: int
    layer_bytes: tuple[int, ...]
    embedding_bytes: int
    expert_bytes: int
    has_output: bool
    splits: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def chat_template(self) -> str | None:
        """The template for plain chat."""
        return self.templates.get("default")

    def metadata(self, *, verbose: bool = False) -> dict[str, Any]:
        """Every key of the header, read anew. Arrays of more than ``SHORT_ARRAY`` items are None unless ``verbose``.

        Raises BadModelFile when the file is not there any more, or is another one now.
        """
        return _open(Path(self.path)).pairs(None if verbose else SHORT_ARRAY)

    @property
    def license(self) -> str:
        """The licence's text, else its name."""
        facts = self.metadata()
        return str(facts.get("general.license.text") or facts.get("general.license") or "")

    def tensors(self) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """Name, type and shape of each tensor, over all parts. Raises BadModelFile."""
        for part in self.splits or (self.path,):
            for name, kind, shape, _, _ in _open(Path(part)).tensors():
                yield name, kind, shape


def read(path: str | os.PathLike[str]) -> Header:
    """The header of the model at ``path``; of a split model any part will do while the first one is there.

    Raises BadModelFile, with the byte offset of the fault, for everything that is not a sound GGUF file.
    """
    path = Path(path).absolute()
    parts = _parts(path)
    first = parts[0] if parts and parts[0].exists() else path
    file = _open(first)
    facts = file.facts()
    split: tuple[int, int, int] | None = facts["split"]
    if split and len(parts) != split[1]:
        raise BadModelFile(
            str(first),
            f"it is part {split[0] + 1} of {split[1]} of a split model, and its name does not end in "
            f"'-{split[0] + 1:05}-of-{split[1]:05}.gguf' as the engines need",
        )
    if not split:
        parts = ()
    missing = tuple(part for part in parts if not part.exists())
    rest = [_open(part) for part in parts if part != first and part not in missing]
    if split and split[2] and not missing:
        found = file.tensor_count + sum(other.tensor_count for other in rest)
        if found != split[2]:
            raise BadModelFile(str(first), f"its parts have {found} tensors together and should have {split[2]}")
    return _header(first, file, facts, [other.facts() for other in rest], parts, missing)


def parse(fronts: Sequence[tuple[str, bytes, int]]) -> Header:
    """The header of a model of which only the fronts of its parts are here: name, first bytes, and size of each.

    Raises BadModelFile, Short.
    """
    files = []
    for name, front, size in fronts:
        try:
            files.append(_native.Gguf.parse(front, size))
        except _native.GgufError as error:
            if error.kind == "truncated" and len(front) < size:
                raise Short(name) from None
            raise BadModelFile(name, str(error), error.offset) from None
    first, *others = files
    return _header(Path(fronts[0][0]), first, first.facts(), [other.facts() for other in others], (), ())


class Short(Exception):
    """The header of the file of this name goes on."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def capabilities(header: Header, projector: Header | None = None) -> tuple[str, ...]:
    """Ollama's words for what the model can do, in Ollama's order; ``rerank`` beside them.

    ``vision`` needs a projector that sees: a file of kind ``mmproj`` next to the model.
    """
    if header.kind in _COMPANIONS or not header.architecture:
        return ()
    if header.pooling_type == _RANKS:
        return ("rerank",)
    if header.pooling_type in _EMBEDS or header.architecture in _ENCODERS:
        return ("embedding",)
    return tuple(_talents(header, projector))


def _talents(header: Header, projector: Header | None) -> Iterator[str]:
    code = "\n".join(tag for text in header.templates.values() for tag in _JINJA.findall(text))
    yield "completion"
    if _TOOLS.search(code):
        yield "tools"
    if header.fills_in:
        yield "insert"
    if projector is not None and projector.sees:
        yield "vision"
    if any(_THINKS.search(text) for text in header.templates.values()):
        yield "thinking"


def _open(path: Path) -> _native.Gguf:
    try:
        return _native.Gguf.open(path)
    except _native.GgufError as error:
        raise BadModelFile(str(path), str(error), error.offset) from None
    except OSError as error:
        raise BadModelFile(str(path), f"it cannot be read ({error.strerror or error})") from None


def _parts(path: Path) -> tuple[Path, ...]:
    found = _native.gguf_parts(path.name)
    return tuple(path.with_name(name) for name in found[1]) if found else ()


def _header(
    path: Path,
    file: _native.Gguf,
    facts: Mapping[str, Any],
    others: list[dict[str, Any]],
    parts: tuple[Path, ...],
    missing: tuple[Path, ...],
) -> Header:
    numbers: dict[str, int] = facts["numbers"]
    blocks = numbers.get("block_count", 0)
    if blocks > MAX_LAYERS:
        raise BadModelFile(str(path), f"its block_count of {blocks} is not to be believed")
    heads = _layers(facts, "head_count", blocks)
    width = numbers.get("embedding_length", 0)
    head = width // heads[0] if heads and heads[0] and width % heads[0] == 0 else 0
    kind = facts["kind"] or "model"
    whole = [facts, *others]
    header = Header(
        path=str(path),
        version=file.version,
        byte_order=file.byte_order,
        kind=kind,
        architecture=facts["architecture"] or "",
        name=facts["name"] or path.stem,
        file_type=facts["file_type"],
        quantization=facts["declared"] or facts["guessed"] or "unknown",
        parameters=sum(part["parameters"] for part in whole),
        context_length=numbers.get("context_length", 0),
        embedding_length=width,
        block_count=blocks,
        head_count=heads,
        head_count_kv=_layers(facts, "head_count_kv", blocks) or heads,
        key_length=numbers.get("key_length", head),
        value_length=numbers.get("value_length", head),
        feed_forward_length=max(_layers(facts, "feed_forward_length", blocks), default=0),
        sliding_window=numbers.get("sliding_window", 0),
        windows=_layers(facts, "sliding_window", blocks),
        sliding_window_pattern=_layers(facts, "sliding_window_pattern", blocks),
        recurrent_layers=_layers(facts, "recurrent_layers", blocks),
        pooling_type=numbers.get("pooling_type"),
        numbers=numbers,
        vocab_size=facts["vocabulary"] or numbers.get("vocab_size", 0),
        tokenizer_model=facts["tokenizer_model"] or "",
        tokenizer_pre=facts["tokenizer_pre"] or "",
        bos=facts["bos"],
        eos=facts["eos"],
        add_bos=facts["add_bos"],
        add_eos=facts["add_eos"],
        templates=facts["templates"],
        fills_in=facts["fills_in"],
        sees=kind == "mmproj" and bool(file.get("clip.has_vision_encoder")),
        capabilities=(),
        tensor_bytes=sum(part["tensor_bytes"] for part in whole),
        layer_bytes=_sum_layers([part["layer_bytes"] for part in whole]),
        embedding_bytes=sum(part["embedding_bytes"] for part in whole),
        expert_bytes=sum(part["expert_bytes"] for part in whole),
        has_output=any(part["has_output"] for part in whole),
        splits=tuple(str(part) for part in parts),
        missing=tuple(str(part) for part in missing),
    )
    return msgspec.structs.replace(header, capabilities=capabilities(header))


def _layers(facts: Mapping[str, Any], name: str, blocks: int) -> tuple[int, ...]:
    """One number for each block; none when there are fewer than blocks, since a shifted list is worse than no list."""
    values: tuple[int, ...] = facts["per_layer"].get(name, ())
    return values[:blocks] if len(values) >= blocks else ()


def _sum_layers(parts: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The blocks of a split model may lie in any part, one block even in two."""
    sums = [0] * max(map(len, parts))
    for part in parts:
        for place, size in enumerate(part):
            sums[place] += size
    return tuple(sums)
