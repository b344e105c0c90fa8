"""Reading the header of a model with a 150,000-token vocabulary, against the ``gguf`` package in the same run.

    python -m benches.header [--smoke] [--json] [--rounds N]

Both read the same file and answer the same questions: architecture, context, how many tokens, every tensor's type and
size. The targets: at least 100 times faster, and under 5 ms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gguf import GGUFReader

from blazar.models import header
from tests.support import tiny_model

VOCABULARY = 150_000
TIMES, MILLISECONDS = 100.0, 5.0

Facts = tuple[str, int, int, int]


def ours(path: Path) -> Facts:
    """Architecture, context, tokens, bytes of all tensors, by our reader."""
    read = header.read(path)
    return read.architecture, read.context_length, read.vocab_size, read.tensor_bytes


def theirs(path: Path) -> Facts:
    """The same by the ``gguf`` package."""
    reader = GGUFReader(path)
    architecture = str(reader.fields["general.architecture"].contents())
    context = int(reader.fields[f"{architecture}.context_length"].contents())
    tokens = len(reader.fields["tokenizer.ggml.tokens"].data)
    return architecture, context, tokens, sum(int(tensor.n_bytes) for tensor in reader.tensors)


def timed(read: Callable[[Path], Facts], path: Path) -> tuple[Facts, float]:
    """What it answered, and milliseconds."""
    began = time.perf_counter()
    facts = read(path)
    return facts, (time.perf_counter() - began) * 1000


def main() -> int:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help="two rounds")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    mine, other = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.gguf"
        tiny_model.write(path, vocab_pad=VOCABULARY)
        for _ in range(2 if arguments.smoke else arguments.rounds):
            one, other_ms = timed(theirs, path)
            two, mine_ms = timed(ours, path)
            if one != two:
                print(f"the two read different things: {one} and {two}", file=sys.stderr)
                return 1
            mine.append(mine_ms)
            other.append(other_ms)
    blazar_ms, gguf_ms = statistics.median(mine), statistics.median(other)
    ratio = statistics.median(b / a for a, b in zip(mine, other, strict=True))
    if arguments.json:
        print(json.dumps({"blazar_ms": mine, "gguf_ms": other, "ratio": ratio}))
        return 0
    print(f"{'blazar':10} {blazar_ms:10.2f} ms   <= {MILLISECONDS:g} ms  {_mark(blazar_ms <= MILLISECONDS)}")
    print(f"{'gguf':10} {gguf_ms:10.2f} ms")
    print(f"{'ratio':10} {ratio:10.0f} times >= {TIMES:g}    {_mark(ratio >= TIMES)}")
    return 0


def _mark(reached: bool) -> str:
    return "reached" if reached else "NOT REACHED"


if __name__ == "__main__":
    sys.exit(main())
