"""A source of llama.cpp that compiles in a second: its programs start the wheel's server."""

from __future__ import annotations

import sys
from pathlib import Path

from blazar.engines.llamacpp import SHIM

_CMAKE = """cmake_minimum_required(VERSION 3.14)
project("llama.cpp" C)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
foreach(name llama-server llama-quantize llama-perplexity)
  add_executable(${name} main.c)
endforeach()
"""
_MAIN = """#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
  char **all = calloc(count + 3, sizeof *all);
  all[0] = "%s"; all[1] = "-I"; all[2] = "%s";
  for (int at = 1; at < count; at++) all[at + 2] = words[at];
  return execv(all[0], all);
}
"""


def source_tree(folder: Path) -> Path:
    """Written to ``folder``, as in the project's own archives."""
    folder.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text(_CMAKE)
    (folder / "main.c").write_text(_MAIN % (sys.executable, SHIM))
    return folder
