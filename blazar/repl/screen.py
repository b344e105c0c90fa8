"""Writing to a terminal or a pipe: colours only where wanted, and nothing that a model says commands the terminal."""

from __future__ import annotations

import os
import re
from typing import TextIO

# All control characters but tab and newline: escape sequences could move the cursor, retitle the window or worse.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Screen:
    """One output stream and how it may be written to."""

    __slots__ = ("colour", "stream", "terminal")

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.terminal = stream.isatty()
        self.colour = self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def write(self, text: str) -> None:
        """Write and flush."""
        self.stream.write(text)
        self.stream.flush()

    def line(self, text: str = "") -> None:
        """Write a line and flush."""
        self.write(f"{text}\n")

    def safe(self, text: str) -> str:
        """Foreign text without control characters when a terminal would obey them; unchanged into a pipe."""
        return _CONTROL.sub("", text) if self.terminal else text

    def dim(self, text: str) -> str:
        """Text that stands back."""
        return self._styled("2", text)

    def bold(self, text: str) -> str:
        """Text that stands out."""
        return self._styled("1", text)

    def good(self, text: str) -> str:
        """Green."""
        return self._styled("32", text)

    def warning(self, text: str) -> str:
        """Yellow."""
        return self._styled("33", text)

    def bad(self, text: str) -> str:
        """Red."""
        return self._styled("31", text)

    def _styled(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text
