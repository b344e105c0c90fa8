"""Pictures for models that see."""

from __future__ import annotations

import base64
import struct
import zlib


def png(width: int = 56, height: int = 56, level: int = 6) -> bytes:
    """A red gradient. ``level`` 0 does not compress, so that a large one is large."""
    rows = b"".join(
        b"\0" + bytes((x * 255 // width, y % 256, 0)[c] for x in range(width) for c in range(3)) for y in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, level)) + chunk(b"IEND", b"")
    )


def base64_png() -> str:
    """As it lies in a body."""
    return base64.b64encode(png()).decode()


def webp(kind: str) -> bytes:
    """56 x 56 points as WebP, ``lossless`` or ``lossy``, as another program wrote it."""
    return base64.b64decode(_WEBP[kind])


_WEBP = {
    "lossless": "UklGRjQAAABXRUJQVlA4TCgAAAAvN8ANALkKRPQ/dhHR/3AQCZAwxf87TR6QSCBpi7f9Edsgb/k88AUQ",
    "lossy": (
        "UklGRoIAAABXRUJQVlA4IHYAAACQBACdASo4ADgAPtFcpkuoJaOhsfOZIQAaCUAZR4dEwr+tlbzwJf/PAl/81wAA/vMD/SToG328Q2moTxH0"
        "b+YysNrp1/kBl3v/B+gzt0ZfuBUpcV177BkRtlgMjl35TGi2gei/5vKe/Kj84BWTWFsNoyremkAA"
    ),
}
