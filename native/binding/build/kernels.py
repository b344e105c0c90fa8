"""Compile every ``.pyx`` under ``ROOT/blazar`` into ``OUT`` as a limited-API extension module.

usage: kernels.py ROOT OUT

Each ``blazar/a/b.pyx`` becomes ``OUT/b.abi3.so`` (``.pyd`` on Windows); pyproject's ``[tool.maturin] include`` names
each one and carries it into wheels and editable installs. Needs Cython and setuptools (``build-system.requires``).
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

ABI = "0x030B0000"  # Python 3.11: the first limited API with the buffer protocol, which typed memoryviews need.


def extension(source: Path, root: Path) -> Extension:
    """The build recipe of one kernel."""
    name = ".".join(source.relative_to(root).with_suffix("").parts)
    windows = sys.platform == "win32"
    flags = ["/O2"] if windows else ["-O3", "-g0", "-ffp-contract=off"]
    link = [] if windows or sys.platform == "darwin" else ["-Wl,-s"]
    macros = [("Py_LIMITED_API", ABI), ("CYTHON_LIMITED_API", "1")]
    return Extension(
        name, [str(source)], define_macros=macros, extra_compile_args=flags, extra_link_args=link, py_limited_api=True
    )


def main() -> None:
    root, out = (Path(arg).resolve() for arg in sys.argv[1:3])
    sources = sorted((root / "blazar").rglob("*.pyx"))
    with tempfile.TemporaryDirectory() as work:
        modules = cythonize(
            [extension(source, root) for source in sources],
            build_dir=work,
            language_level=3,
            quiet=True,
            compiler_directives={"boundscheck": False, "wraparound": False, "cdivision": True},
        )
        command = build_ext(Distribution({"name": "blazar-kernels", "ext_modules": modules}))
        command.build_lib, command.build_temp = f"{work}/lib", f"{work}/tmp"
        command.ensure_finalized()
        command.run()
        suffix = ".pyd" if sysconfig.get_platform().startswith("win") else ".abi3.so"
        for module in modules:
            built = command.get_ext_fullpath(module.name)
            shutil.copyfile(built, out / f"{module.name.rpartition('.')[2]}{suffix}")


if __name__ == "__main__":
    main()
