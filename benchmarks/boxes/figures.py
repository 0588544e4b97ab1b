"""From samples to measurements and targets: numbers only."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.boxes.scenarios import GIGABYTE, Batch
from benchmarks.result import Measurement, Target

MEBIBYTE = 2**20
OURS = "ours"
BUBBLEWRAP, DOCKER, DOCKER_WARM = "ours bubblewrap, cold", "ours Docker, cold", "ours Docker, warm"
SDK = "Docker SDK"


@dataclass
class Series:
    """All that one arm gave of one metric."""

    samples: list[float] = field(default_factory=list)
    failures: int = 0


@dataclass(frozen=True)
class Form:
    """How a metric is told."""

    unit: str
    per: float
    """Samples are divided by it."""
    value: Callable[[list[float]], float]
    spread: bool = True
    """Whether p50 and p95 say anything."""


def rank(samples: list[float], share: float) -> float:
    """The smallest sample that at least this share is not above."""
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


def median(samples: list[float]) -> float:
    return rank(samples, 0.5)


def rate(samples: list[float]) -> float:
    return len(samples) / sum(samples)


FORMS: dict[str, Form] = {
    "first command": Form("ms", 1e-3, median),
    "stop": Form("ms", 1e-3, median),
    "exec true": Form("ms", 1e-3, median),
    "lifecycle": Form("a second", 1, rate, spread=False),
    "timeout overshoot": Form("s", 1, max),
    "survivors": Form("processes", 1, sum, spread=False),
    "growth": Form("MiB", MEBIBYTE, max, spread=False),
    "count told": Form("bytes", 1, min, spread=False),
    "memory": Form("MiB", MEBIBYTE, median, spread=False),
    "time of a burst": Form("s", 1, max, spread=False),
    "most boxes": Form("boxes", 1, max, spread=False),
    "left": Form("things", 1, sum, spread=False),
    "held boxes": Form("s", 1, max, spread=False),
    "does not run": Form("", 1, max, spread=False),
}
"""By how the metric begins."""


class Figures:
    def __init__(self) -> None:
        self.series: dict[tuple[str, str], Series] = {}

    def add(self, arm: str, batch: Batch) -> None:
        for metric, samples in batch.samples.items():
            self.of(arm, metric).samples += samples
        for metric, failures in batch.failures.items():
            self.of(arm, metric).failures += len(failures)

    def fail(self, arm: str, metric: str, count: int) -> None:
        self.of(arm, metric).failures += count

    def of(self, arm: str, metric: str) -> Series:
        return self.series.setdefault((arm, metric), Series())

    def measurements(self) -> list[Measurement]:
        """Grouped by metric, in the order in which they came, so that arms stand below each other."""
        metrics = list(dict.fromkeys(metric for _, metric in self.series))
        keys = sorted(self.series, key=lambda key: metrics.index(key[1]))
        return [measurement(arm, metric, self.series[arm, metric]) for arm, metric in keys]


def measurement(arm: str, metric: str, series: Series) -> Measurement:
    form = next(form for begin, form in FORMS.items() if metric.startswith(begin))
    told = [sample / form.per for sample in series.samples]
    n = len(told) + series.failures
    if not told:
        return Measurement(metric, arm, None, form.unit, n, failures=series.failures)
    p50, p95 = (rank(told, share) if form.spread else None for share in (0.5, 0.95))
    return Measurement(metric, arm, form.value(told), form.unit, n, p50, p95, series.failures)


def targets(measurements: list[Measurement], *, quick: bool) -> list[Target]:
    """Of all our arms the worst stands for them; a failure misses whatever was measured."""
    found = Found(measurements, quick=quick)
    eight = "first command, 8 at once"
    return [
        found.below("bubblewrap: first command p50, 8 at once", BUBBLEWRAP, eight, "p50", 50),
        found.below("bubblewrap: first command p95, 8 at once", BUBBLEWRAP, eight, "p95", 150),
        found.below("bubblewrap: exec p50", BUBBLEWRAP, "exec true", "p50", 3),
        found.at_least("bubblewrap: lifecycles, 8 at once", BUBBLEWRAP, "lifecycle, 8 at once", 80),
        found.at_least("bubblewrap: lifecycles, 16 at once", BUBBLEWRAP, "lifecycle, 16 at once", 80),
        found.below("bubblewrap: memory of each of 64 live boxes", BUBBLEWRAP, "memory of a live box", "value", 8),
        found.below("Docker, warm: acquire to first command p50", DOCKER_WARM, "first command, 1 at once", "p50", 30),
        found.below("Docker, warm: acquire to first command p95", DOCKER_WARM, "first command, 1 at once", "p95", 100),
        found.below("Docker: exec p50", DOCKER, "exec true", "p50", 6),
        found.ratio("Docker, cold: first command p50 / the plain SDK's", DOCKER, SDK, "first command, 1 at once"),
        found.ratio("the same, 8 at once", DOCKER, SDK, eight),
        found.below("timeout overshoot, worst", OURS, "timeout overshoot", "value", 0.5),
        found.none("survivors of a timeout", "survivors"),
        found.none("left of a killed worker after one reaper cycle", "left"),
        found.below("growth at 1 GiB of output", OURS, "growth at a flood of output", "value", 32),
        found.exactly("count told of 1 GiB of output", "count told of a flood", GIGABYTE),
        found.all_done("burst of 200 starts: not finished", "first command in a burst"),
    ]


class Found:
    """Measurements to judge: arms and metrics are named by how they begin."""

    def __init__(self, measurements: list[Measurement], *, quick: bool) -> None:
        self._rows = measurements
        self._quick = quick

    def below(self, name: str, arm: str, metric: str, field_name: str, target: float) -> Target:
        rows = self._of(arm, metric)
        worst = largest([getattr(row, field_name) for row in rows])
        return self._target(name, worst, rows, target, worst is not None and worst < target)

    def at_least(self, name: str, arm: str, metric: str, target: float) -> Target:
        rows = self._of(arm, metric)
        value = rows[0].value if rows else None
        return self._target(name, value, rows, target, value is not None and value >= target)

    def ratio(self, name: str, arm: str, other: str, metric: str) -> Target:
        rows, others = self._of(arm, metric), self._of(other, metric)
        mine, theirs = (found[0].p50 if found else None for found in (rows, others))
        value = mine / theirs if mine is not None and theirs else None
        met = value is not None and value <= 1 and not any(row.failures for row in rows)
        return Target(name, value, "ratio", 1, None if self._quick else met)

    def none(self, name: str, metric: str) -> Target:
        rows = self._of(OURS, metric)
        values = [row.value for row in rows]
        value = None if not values or None in values else sum(value for value in values if value is not None)
        return self._target(name, value, rows, 0, value == 0)

    def exactly(self, name: str, metric: str, target: float) -> Target:
        rows = self._of(OURS, metric)
        values = {row.value for row in rows}
        value = rows[0].value if len(values) == 1 else None
        return self._target(name, value, rows, target, values == {target})

    def all_done(self, name: str, metric: str) -> Target:
        rows = self._of(OURS, metric)
        value = float(sum(row.failures for row in rows)) if rows else None
        return Target(name, value, "boxes", 0, None if self._quick else value == 0)

    def _of(self, arm: str, metric: str) -> list[Measurement]:
        return [row for row in self._rows if row.arm.startswith(arm) and row.metric.startswith(metric)]

    def _target(self, name: str, value: float | None, rows: list[Measurement], target: float, met: bool) -> Target:
        failed = any(row.failures for row in rows)
        unit = rows[0].unit if rows else ""
        return Target(name, value, unit, target, None if self._quick else met and not failed)


def largest(values: list[float | None]) -> float | None:
    """None where there is none, or one is not defined."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None
