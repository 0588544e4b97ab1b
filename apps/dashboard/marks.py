"""Geometry of the marks that the server draws: pure, lengths in per cent as SVG attributes take them."""

from collections.abc import Sequence
from dataclasses import dataclass

SPARK_WIDTH, SPARK_HEIGHT, SPARK_PAD = 96.0, 20.0, 2.0


def pct(share: float) -> str:
    """A length or place on a scale from 0 to 1."""
    return f"{100 * min(1.0, max(0.0, share)):.2f}%"


def spark(values: Sequence[float | None], low: float | None = None, high: float | None = None) -> str:
    """The path of a sparkline, broken where a value is missing; empty for fewer than two values."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return ""
    bottom = min(known) if low is None else low
    top = max(known) if high is None else high
    span = (top - bottom) or 1.0
    step = SPARK_WIDTH / (len(values) - 1)
    parts, pen = [], "M"
    for i, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = SPARK_HEIGHT - SPARK_PAD - (SPARK_HEIGHT - 2 * SPARK_PAD) * (value - bottom) / span
        parts.append(f"{pen}{i * step:.1f} {y:.1f}")
        pen = "L"
    return " ".join(parts)


@dataclass(frozen=True)
class Span:
    """One piece of a bar or lane."""

    x: str
    width: str
    paint: str
    title: str


def stack(parts: Sequence[tuple[float, str, str]]) -> list[Span]:
    """A bar of (amount, paint, title) parts side by side; nothing for a sum of 0."""
    total = sum(amount for amount, _, _ in parts)
    spans, at = [], 0.0
    for amount, paint, title in parts:
        if total and amount:
            spans.append(Span(pct(at / total), pct(amount / total), paint, title))
            at += amount
    return spans


def lane(parts: Sequence[tuple[float, float, str, str]], total: float) -> list[Span]:
    """(start, length, paint, title) on an axis from 0 to total; the shortest stays visible."""
    if total <= 0:
        return []
    return [
        Span(pct(start / total), pct(max(length / total, 0.002)), paint, title) for start, length, paint, title in parts
    ]


def ticks(total: float, most: int = 7) -> list[tuple[str, float]]:
    """Round places on an axis from 0 to total, at most so many."""
    if total <= 0:
        return []
    step = 10.0**-3
    while total / step > most:
        lead = step / 10 ** _exponent(step)
        step *= 2.5 if 1.5 < lead < 3 else 2
    return [(pct(i * step / total), i * step) for i in range(int(total / step) + 1) if i * step / total <= 0.97]


def _exponent(value: float) -> int:
    exponent = 0
    while value < 0.9999:
        value, exponent = value * 10, exponent - 1
    while value >= 9.9999:
        value, exponent = value / 10, exponent + 1
    return exponent
