"""All checks of the project: ``python -m tests``.

usage: python -m tests [--list] [--only STEP[,STEP]] [--skip STEP[,STEP]]
"""

from __future__ import annotations

import argparse
import sys

from tests.gate.runner import run
from tests.gate.steps import STEPS


def main() -> int:
    """Choose the steps and run them."""
    names = [step.name for step in STEPS]
    parser = argparse.ArgumentParser(prog="python -m tests", description="Run all checks of the project.")
    parser.add_argument("--list", action="store_true", help="name the steps")
    parser.add_argument("--only", default="", metavar="STEP[,STEP]", help="run only these")
    parser.add_argument("--skip", default="", metavar="STEP[,STEP]", help="leave these out")
    asked = parser.parse_args()
    only, skip = (set(filter(None, text.split(","))) for text in (asked.only, asked.skip))
    if unknown := (only | skip) - set(names):
        parser.error(f"no step is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if asked.list:
        for step in STEPS:
            print(f"{step.name:<14}{step.what}")
        return 0
    return run([step for step in STEPS if (not only or step.name in only) and step.name not in skip])


if __name__ == "__main__":
    sys.exit(main())
