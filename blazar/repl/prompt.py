"""The line that a person types: editing and history by readline, several lines between triple quotes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from blazar.repl.screen import Screen

_QUOTES = '"""'
_KEPT_LINES = 2000


class Prompt:
    """Asks for a message. Without a readline module lines can still be typed."""

    def __init__(self, history: Path, words: tuple[str, ...], out: Screen) -> None:
        self._history = history
        self._words = words
        self._out = out
        self._open()

    def ask(self) -> str:
        """The next message. ``EOFError`` when there is no more; ``KeyboardInterrupt`` leaves the message."""
        line = input(">>> ")
        if not line.lstrip().startswith(_QUOTES):
            return line
        lines = [line.lstrip().removeprefix(_QUOTES)]
        while not lines[-1].rstrip().endswith(_QUOTES):
            lines.append(input("... "))
        lines[-1] = lines[-1].rstrip().removesuffix(_QUOTES)
        return "\n".join(lines).strip("\n")

    def close(self) -> None:
        """Keep the history, for this user's eyes only."""
        if self._readline is None:
            return
        with contextlib.suppress(OSError):
            self._history.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._history, os.O_WRONLY | os.O_CREAT, 0o600))
            self._readline.set_history_length(_KEPT_LINES)
            self._readline.write_history_file(self._history)

    def _open(self) -> None:
        try:
            import readline  # noqa: PLC0415 (some builds of Python have none)
        except ImportError:
            self._readline = None
            return
        self._readline = readline
        readline.parse_and_bind("set enable-bracketed-paste on")
        readline.parse_and_bind("tab: complete")
        readline.set_completer_delims(" ")
        readline.set_completer(self._complete)
        with contextlib.suppress(OSError):
            readline.read_history_file(self._history)

    def _complete(self, text: str, state: int) -> str | None:
        if self._readline is None or not self._readline.get_line_buffer().startswith("/"):
            return None
        line = self._readline.get_line_buffer()
        begin = line[: self._readline.get_begidx()]
        fits = sorted({word[len(begin) :].split(" ")[0] for word in self._words if word.startswith(begin + text)})
        return fits[state] + " " if state < len(fits) else None
