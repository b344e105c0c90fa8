"""The table that a person reads: each measure, its target beside it, and whether it was reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Summary = dict[str, Any]
Read = Callable[[Summary], float]

MIB = 1024 * 1024
KIB = 1024


class Row(msgspec.Struct, frozen=True):
    """One measure. ``how`` it is judged: its value, ``added`` over direct, or as a ``ratio`` to nginx."""

    title: str
    unit: str
    read: Read
    how: str = "value"
    most: float | None = None
    least: float | None = None

    def verdict(self, value: float) -> str:
        """The target, and whether ``value`` reaches it."""
        if self.most is not None:
            return f"<= {self.most:g}  {'reached' if value <= self.most else 'NOT REACHED'}"
        if self.least is not None:
            return f">= {self.least:g}  {'reached' if value >= self.least else 'NOT REACHED'}"
        return ""


def _growth(one: Summary) -> float:
    memory = one["held"]["memory"]
    return float(memory["last_pss"] - memory["first_pss"]) / MIB


def _per_stream(one: Summary) -> float:
    memory = one["held"]["memory"]
    streams: int = one["held"]["requests"]
    return float(memory["peak_pss"] - memory["idle_pss"]) / KIB / streams


ROWS: tuple[Row, ...] = (
    Row("time to first text, p50", "ms", lambda one: one["moderate"]["first_ms"]["p50"], "added", most=0.6),
    Row("time to first text, p99", "ms", lambda one: one["moderate"]["first_ms"]["p99"], "added", most=2.5),
    Row("way of a chunk, p50", "ms", lambda one: one["moderate"]["way_ms"]["p50"], "added", most=0.08),
    Row("way of a chunk, p99", "ms", lambda one: one["moderate"]["way_ms"]["p99"], "added", most=1),
    Row("plain chat", "requests/s", lambda one: one["plain"]["requests_per_s"], "ratio", least=0.35),
    Row("plain chat, p50", "ms", lambda one: one["plain"]["total_ms"]["p50"]),
    Row("plain chat, CPU", "s/1,000", lambda one: one["plain"]["cpu_s_per_1000"]),
    Row("streamed back to back", "chunks/s", lambda one: one["burst"]["chunks_per_s"], "ratio", least=1),
    Row("streamed, CPU", "s/million", lambda one: one["burst"]["cpu_s_per_million_chunks"]),
    Row("many streams, way p50", "ms", lambda one: one["held"]["way_ms"]["p50"]),
    Row("many streams, way p99", "ms", lambda one: one["held"]["way_ms"]["p99"]),
    Row(
        "many streams, delivered",
        "of wanted",
        lambda one: one["held"]["chunks_per_s"] / one["held"]["wanted_chunks_per_s"],
        least=0.98,
    ),
    Row("many streams, CPU", "cores", lambda one: one["held"]["cpu_cores"]),
    Row("many streams, growth", "MiB PSS", _growth, most=2),
    Row("memory of an open stream", "KiB PSS", _per_stream, most=40),
    Row("memory with many streams", "MB PSS", lambda one: one["held"]["memory"]["peak_pss"] / 1e6),
    Row("memory idle", "MB PSS", lambda one: one["idle_pss"] / 1e6, most=80),
    Row("memory idle, pages shared counted twice", "MB RSS", lambda one: one["idle_rss"] / 1e6),
    Row("memory after the many streams", "MB PSS", lambda one: one["held"]["memory"]["after_pss"] / 1e6),
    Row("start to first 200", "s", lambda one: one["cold_start_s"], most=0.8),
)


def table(about: dict[str, Any], summary: dict[str, Summary]) -> str:
    """Lines of text, aligned."""
    names = list(summary)
    sizes = about["sizes"]
    lines = [
        f"{about['cpu']}, {about['cores']} cores, load before {about['load_before']:.1f}, "
        f"{'engines and load tool on one core, the subject on another' if about['pinned'] else 'cores not pinned'}; "
        f"medians of {sizes['rounds']} rounds; {sizes['streams']} streams held {sizes['hold_s']} s",
        "",
        "".join([f"{'':<42}{'':<12}", *(f"{name:>12}" for name in names), f"{'judged':>12}  target"]),
    ]
    for row in ROWS:
        values = {name: float(row.read(one)) for name, one in summary.items()}
        cells = "".join(f"{_short(values[name]):>12}" for name in names)
        judged, verdict = _judge(row, values)
        lines.append(f"{row.title:<42}{row.unit:<12}{cells}{judged:>12}  {verdict}".rstrip())
    return "\n".join(lines)


def _judge(row: Row, values: dict[str, float]) -> tuple[str, str]:
    ours = values.get("blazar")
    base = values.get({"added": "direct", "ratio": "nginx"}.get(row.how, ""))
    if ours is None or (row.how != "value" and not base):
        return "", ""
    if row.how == "added":
        ours -= base or 0
        return f"+{_short(ours)}", row.verdict(ours)
    if row.how == "ratio":
        ours /= base or 1
        return f"x{_short(ours)}", row.verdict(ours)
    return (_short(ours) if row.verdict(ours) else ""), row.verdict(ours)


def _short(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
