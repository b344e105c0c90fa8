"""What the planner says a model takes, against what the real engine's process holds once it has answered.

    python -m benches.footprint [--smoke] [--json] [MODEL.gguf ...]

Generated models of different shapes are loaded with different contexts, slots and cache types; MODELs are files to try
besides. The target: no prediction more than 5 % below the truth. What is above it is room that nobody uses.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
import msgspec

from blazar.memory.footprint import footprint
from blazar.models import header
from tests.support import tiny_model
from tests.support.server import serving

BELOW = -0.05


class Case(msgspec.Struct, frozen=True):
    """A model and how it is run; ``shape`` are arguments of the generator, none for a file that is there."""

    name: str
    context: int
    slots: int = 1
    cache_type: str = "f16"
    shape: dict[str, int] = {}


CASES = (
    Case("2 layers of 64", 512, shape={}),
    Case("12 layers of 256", 4096, 2, shape={"layers": 12, "width": 256, "context": 16384}),
    Case("the same, 16384 tokens", 16384, 1, shape={"layers": 12, "width": 256, "context": 16384}),
    Case("the same, q8_0", 16384, 1, "q8_0", shape={"layers": 12, "width": 256, "context": 16384}),
    Case("24 layers of 512", 8192, 4, shape={"layers": 24, "width": 512, "context": 8192}),
    Case("8 layers of 1024", 4096, 8, shape={"layers": 8, "width": 1024, "context": 4096}),
    Case("a vocabulary of 100,000", 2048, 2, shape={"layers": 4, "width": 256, "vocab_pad": 100_000}),
)


class Row(msgspec.Struct, frozen=True):
    """Bytes, and how far the prediction is above (below: negative) the truth, as a part of it."""

    name: str
    predicted: int
    measured: int

    @property
    def error(self) -> float:
        """0.1: ten per cent more was predicted than was taken."""
        return self.predicted / self.measured - 1


def measure(case: Case, path: Path, home: Path) -> Row:
    """Load, answer once over much of the context, and look."""
    settings = {
        "BLAZAR_ENGINE_CONTEXT": str(case.context),
        "BLAZAR_ENGINE_SLOTS": str(case.slots),
        "BLAZAR_ENGINE_CACHE_TYPE": case.cache_type,
        "BLAZAR_ENGINE_GPU_LAYERS": "0",
    }
    with serving(home, {"model": path}, **settings) as server:
        body: dict[str, Any] = {"model": "model", "stream": False, "options": {"num_predict": 2, "temperature": 0}}
        httpx.post(f"{server.url}/api/generate", json={**body, "prompt": "fox " * (case.context // 8)}, timeout=600)
        (row,) = server.ps()
        pid = row["blazar"]["pid"]  # type: ignore[index]
        status = Path(f"/proc/{pid}/status").read_text()
    held = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))
    predicted = footprint(header.read(path), case.context, case.slots, case.cache_type).total
    return Row(case.name, predicted, held)


def main() -> int:
    """Print the table, or JSON; fails where a prediction is too low."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help="two cases")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("models", nargs="*", type=Path)
    arguments = parser.parse_args()
    cases = [(case, Path()) for case in (CASES[:2] if arguments.smoke else CASES)]
    cases += [(Case(path.stem, 4096, 2), path) for path in arguments.models]
    rows = list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        for number, (case, given) in enumerate(cases):
            path = given
            if path == Path():
                path = Path(folder) / f"{number}.gguf"
                tiny_model.write(path, **case.shape)  # type: ignore[arg-type]
            rows.append(measure(case, path.absolute(), Path(folder) / f"home{number}"))
    errors = [row.error for row in rows]
    if arguments.json:
        told = [{**msgspec.structs.asdict(row), "error": row.error} for row in rows]
        sys.stdout.write(json.dumps({"cases": told, "median": statistics.median(errors), "worst": min(errors)}) + "\n")
    else:
        for row in rows:
            sys.stdout.write(
                f"{row.name:28} predicted {row.predicted / 1e6:9.1f} MB  measured {row.measured / 1e6:9.1f} MB  "
                f"{row.error:+7.1%}\n"
            )
        sys.stdout.write(f"median {statistics.median(errors):+.1%}, lowest {min(errors):+.1%}, target {BELOW:+.0%}\n")
    return int(min(errors) < BELOW)


if __name__ == "__main__":
    sys.exit(main())
