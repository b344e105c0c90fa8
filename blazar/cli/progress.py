"""How far a transfer is: a bar that redraws itself on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import re
import shutil
from types import TracebackType
from typing import TYPE_CHECKING

from blazar.cli.output import duration, size
from blazar.repl.screen import Screen

if TYPE_CHECKING:
    from blazar.models.progress import Progress

_PHASES = {
    "resolve": "Looking up",
    "wait": "Waiting for",
    "download": "Fetching",
    "verify": "Checking",
    "unpack": "Unpacking",
    "copy": "Copying",
    "load": "Loading",
    "test": "Measuring",
}
_EIGHTHS = " ▏▎▍▌▋▊▉"
_STEP = 10
_PERCENT = re.compile(r"(\d+) %")
_NARROW, _WIDE = 8, 24


class Bar:
    """Shows each ``Progress`` that it is called with. As a context it leaves the terminal clean, however it is left."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._drawn: tuple[str, str] | None = None
        self._said: tuple[tuple[str, str], int] | None = None
        self._blocks = "utf" in (screen.stream.encoding or "").lower()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._finish()

    def __call__(self, progress: Progress) -> None:
        """Draw or say where it is now."""
        if progress.phase == "done":
            self._finish()
        elif self._screen.terminal:
            self._draw(progress)
        else:
            self._say(progress)

    def _draw(self, progress: Progress) -> None:
        step = (progress.phase, progress.what)
        if self._drawn not in (None, step):
            self._finish()
        self._drawn = step
        columns = shutil.get_terminal_size().columns - 1
        self._screen.write(f"\r{line(progress, columns, blocks=self._blocks)}\x1b[K")

    def _finish(self) -> None:
        if self._drawn is not None:
            self._screen.line()
            self._drawn = None

    def _say(self, progress: Progress) -> None:
        step = (progress.phase, progress.what)
        percent = int(100 * progress.done / progress.total) if progress.total else 0
        tenth = percent // _STEP
        if self._said is not None and self._said[0] == step and tenth <= self._said[1]:
            return
        self._said = (step, tenth)
        parts = [f"{_PHASES.get(progress.phase, progress.phase)} {progress.what}"]
        if progress.total:
            parts.append(f"{percent}% of {size(progress.total)}")
        if progress.rate and progress.phase == "download":
            parts.append(f"{size(int(progress.rate))}/s")
        if progress.eta and progress.done:
            parts.append(f"{duration(progress.eta)} left")
        self._screen.line(", ".join(parts))


class Steps:
    """Shows what is done now, as text: on a terminal a line for each thing, redrawn as its percentage grows; elsewhere
    a line for each thing and for each tenth of it. As a context it leaves the terminal clean.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._thing, self._tenth = "", -1

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.finish()

    def __call__(self, text: str) -> None:
        """Draw or say it, unless it was said."""
        found = _PERCENT.search(text)
        thing, tenth = _PERCENT.sub("", text), int(found[1]) // _STEP if found else 0
        if self._screen.terminal:
            if thing != self._thing:
                self.finish()
            columns = shutil.get_terminal_size().columns - 1
            self._screen.write(f"\r{_cut(text, columns)}\x1b[K")
        elif thing != self._thing or tenth > self._tenth:
            self._screen.line(text)
        self._thing, self._tenth = thing, tenth

    def finish(self) -> None:
        """What comes next begins on a line of its own."""
        if self._thing and self._screen.terminal:
            self._screen.line()
        self._thing = ""


def line(progress: Progress, columns: int, *, blocks: bool) -> str:
    """One line of at most ``columns`` characters: what, bar, share, bytes, rate, time left."""
    title = f"{_PHASES.get(progress.phase, progress.phase)} {progress.what}"
    if not progress.total:
        told = f"  {size(progress.done)}" if progress.done else ""
        return f"{_cut(title, columns - len(told))}{told}"
    share = min(1.0, progress.done / progress.total)
    tail = f" {share:4.0%}  {size(progress.done):>7} of {size(progress.total)}"
    tail += f"  {size(int(progress.rate)):>7}/s" if progress.rate else ""
    tail += f"  {duration(progress.eta)} left" if progress.eta and share < 1 else ""
    room = columns - len(tail) - 3
    if room < 2 * _NARROW:
        return _cut(title + tail, columns)
    wide = max(_NARROW, min(_WIDE, room - len(title)))
    title = _cut(title, room - wide)
    left, right = ("▕", "▏") if blocks else ("[", "]")
    return f"{title} {left}{_fill(share, wide, blocks=blocks)}{right}{tail}"


def _fill(share: float, wide: int, *, blocks: bool) -> str:
    eighths = int(share * wide * 8)
    if not blocks:
        return ("#" * (eighths // 8)).ljust(wide)
    full = "█" * (eighths // 8)
    return (full + (_EIGHTHS[eighths % 8] if len(full) < wide else "")).ljust(wide)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(0, room - 3)]}..."
