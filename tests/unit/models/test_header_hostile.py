"""Files that are no sound GGUF: a typed error that names where, and never anything else."""

from __future__ import annotations

import struct
import tempfile
import time
from pathlib import Path

import pytest
from gguf import GGUFReader
from hypothesis import given, settings
from hypothesis import strategies as st

from blazar import _native
from blazar.models import header
from tests.support import tiny_model


def _tiny() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.gguf"
        tiny_model.write(path)
        return path.read_bytes()


TINY = _tiny()
HEADER_BYTES = _native.Gguf.parse(TINY).header_bytes


def attempt(data: bytes, size: int | None = None) -> _native.Gguf | _native.GgufError:
    """Read it; at most a fifth of a second, whatever it is."""
    began = time.thread_time()
    try:
        found = _native.Gguf.parse(data, size)
        found.facts()
        found.tensors()
        found.pairs(16)
        return found
    except _native.GgufError as error:
        refused = error
    finally:
        assert time.thread_time() - began < 0.2
    assert 0 <= refused.offset <= max(len(data), size or 0)
    assert refused.kind
    return refused


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, HEADER_BYTES - 1), st.integers(0, 255)), min_size=1, max_size=12))
def test_any_bytes_may_be_wrong(changes: list[tuple[int, int]]) -> None:
    data = bytearray(TINY)
    for at, value in changes:
        data[at] = value
    attempt(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, HEADER_BYTES - 8), st.sampled_from([0, 1, 2**31, 2**32, 2**40, 2**62, 2**63, 2**64 - 1]))
def test_any_count_may_be_huge(at: int, count: int) -> None:
    attempt(TINY[:at] + struct.pack("<Q", count) + TINY[at + 8 :])


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(TINY) - 1))
def test_it_may_end_anywhere(length: int) -> None:
    assert isinstance(attempt(TINY[:length]), _native.GgufError)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_it_may_be_anything(data: bytes) -> None:
    assert isinstance(attempt(data), _native.GgufError)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda data: b"GGML" + data[4:], "magic"),
        (lambda data: data[:4] + struct.pack("<I", 1) + data[8:], "version"),
        (lambda data: data[:4] + struct.pack("<I", 99) + data[8:], "version"),
        (lambda data: data[:8] + struct.pack("<Q", 2**63) + data[16:], "count"),
        (lambda data: data[:16] + struct.pack("<Q", 2**63) + data[24:], "count"),
        (lambda data: data[:24] + struct.pack("<Q", 2**63) + data[32:], "length"),
        (lambda data: data[:-1], "tensor"),
    ],
    ids=["magic", "version 1", "version 99", "tensors", "pairs", "key of 2^63 bytes", "last tensor past the end"],
)
def test_what_is_wrong_is_named(change: object, kind: str) -> None:
    found = attempt(change(TINY))  # type: ignore[operator]
    assert isinstance(found, _native.GgufError)
    assert kind in f"{found.kind} {found}"


def test_a_model_in_the_other_byte_order_is_read_or_refused_with_a_sentence() -> None:
    swapped = TINY[:4] + struct.pack(">I", 3) + struct.pack(">QQ", 0, 0)
    found = attempt(swapped)
    assert isinstance(found, _native.GgufError) or found.byte_order == "big"


def test_the_facts_are_those_of_the_reference_reader(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(TINY)
    ours, theirs = header.read(path), GGUFReader(path)
    assert ours.architecture == theirs.fields["general.architecture"].contents()
    assert ours.context_length == theirs.fields["llama.context_length"].contents()
    assert ours.vocab_size == len(theirs.fields["tokenizer.ggml.tokens"].data)
    assert ours.tensor_bytes == sum(int(tensor.n_bytes) for tensor in theirs.tensors)
    assert ours.chat_template == theirs.fields["tokenizer.chat_template"].contents()
    for name, _, shape, size, _ in _native.Gguf.open(path).tensors():
        other = next(tensor for tensor in theirs.tensors if tensor.name == name)
        assert (list(shape), size) == ([int(number) for number in other.shape], int(other.n_bytes))
