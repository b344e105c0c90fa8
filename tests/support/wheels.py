"""Wheels and a package index of our own."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    folder: Path, package: str, files: Mapping[str, bytes], *, version: str = "1.0", requires: Sequence[str] = ()
) -> Path:
    """Write ``package-version-py3-none-any.whl`` with these files, a METADATA and a true RECORD."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{package.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    inside = {
        **files,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},{record_hash(data)},{len(data)}\n" for name, data in inside.items())
    inside[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in inside.items():
            wheel.writestr(name, data)
    return path


def record_hash(data: bytes) -> str:
    """As RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def offline(folder: Path) -> tuple[str, ...]:
    """Arguments that make pip look in this folder and nowhere else."""
    return ("--no-index", "--find-links", str(folder))
