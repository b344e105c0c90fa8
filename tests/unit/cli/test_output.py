from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest

from blazar.cli import output
from blazar.cli.progress import Bar, line
from blazar.models.progress import Progress
from blazar.repl.screen import Screen


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_996, "10.0 kB"),
        (93_204_992, "93.2 MB"),
        (999_600, "1.00 MB"),
        (250_000_000, "250 MB"),
        (4_920_000_000, "4.92 GB"),
        (5_000_000_000_000_000, "5000 TB"),
    ],
)
def test_sizes_have_three_digits(count: int, text: str) -> None:
    assert output.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0s"), (59.4, "59s"), (60, "1m 00s"), (127, "2m 07s"), (3900, "1h 05m"), (90000, "1d 01h"), (-5, "0s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert output.duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"), [(134_515_008, "135M"), (7_615_616_512, "7.62B"), (999, "999"), (1_500, "1.5K"), (10**12, "1T")]
)
def test_counts(number: int, text: str) -> None:
    assert output.count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(3, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (86400 * 400, "1 year ago")]
)
def test_ages(seconds: float, text: str) -> None:
    assert output.ago(seconds) == text


def test_when_an_instance_leaves() -> None:
    now = datetime.now(UTC)
    assert output.until((now + timedelta(seconds=125)).isoformat()).startswith("2m 0")
    assert output.until((now - timedelta(seconds=1)).isoformat()) == "now"
    assert output.until("2399-01-01T00:00:00Z") == "forever"
    assert output.until("") == "-"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def at(done: int, phase: str = "download", eta: float | None = 4.0) -> Progress:
    return Progress(phase, "smollm2.whl", done, 93_204_992, 12_300_000.0, eta)  # type: ignore[arg-type]


def test_a_bar_tells_share_bytes_rate_and_time_left() -> None:
    text = line(at(46_602_496), 110, blocks=True)
    assert text.startswith("Fetching smollm2.whl ▕████████████            ▏  50%")
    assert text.endswith("46.6 MB of 93.2 MB  12.3 MB/s  4s left")
    assert line(at(46_602_496), 110, blocks=False).count("#") == 12


@pytest.mark.parametrize("columns", [20, 40, 60, 79, 200])
@pytest.mark.parametrize("done", [0, 1, 46_602_496, 93_204_992, 99_999_999])
def test_a_bar_never_wraps(columns: int, done: int) -> None:
    assert len(line(at(done), columns, blocks=True)) <= columns


def test_on_a_terminal_one_line_is_redrawn_and_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with Bar(Screen(stream)) as bar:
        for done in (10_000_000, 50_000_000, 93_204_992):
            bar(at(done))
        bar(at(50_000_000, "verify"))
        bar(Progress("done", "smollm2"))
    first, second, rest = stream.getvalue().split("\n")
    assert first.count("\r") == 3
    assert first.rsplit("\r", 1)[1].startswith("Fetching smollm2.whl")
    assert "Checking smollm2.whl" in second
    assert rest == ""


def test_a_broken_off_bar_leaves_a_fresh_line() -> None:
    stream = Terminal()

    def broken_off() -> None:
        with Bar(Screen(stream)) as bar:
            bar(at(10_000_000))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert stream.getvalue().endswith("\n")


def test_elsewhere_a_line_is_said_at_each_tenth() -> None:
    stream = io.StringIO()
    with Bar(Screen(stream)) as bar:
        for percent in range(101):
            bar(at(93_204_992 * percent // 100))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[5] == "Fetching smollm2.whl, 50% of 93.2 MB, 12.3 MB/s, 4s left" or "49%" in lines[5]
    assert "\r" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_foreign_text_commands_no_terminal_and_is_whole_in_a_pipe() -> None:
    text = "a\x1b]0;x\x07b\x9bc\td\n"
    assert Screen(Terminal()).safe(text) == "a]0;xbc\td\n"
    assert Screen(io.StringIO()).safe(text) == text


@pytest.mark.parametrize(
    ("env", "colour"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)]
)
def test_colours_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch, env: dict[str, str], colour: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b" in Screen(Terminal()).bad("x")) is colour
    assert Screen(io.StringIO()).bad("x") == "x"
