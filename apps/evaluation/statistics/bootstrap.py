"""Percentile bootstrap of any metric: whole clusters are drawn again, with a seed that is kept in the result."""

from collections.abc import Callable, Sequence
from math import ceil, isinf
from typing import TypeVar

import numpy as np

from .interval import NO_WIDTH, Interval, undefined

Unit = TypeVar("Unit")
Metric = Callable[[Sequence[Unit]], float | None]
"""None where it is not defined, infinity where it lies beyond every bound. Blind to the order of the units."""

METHOD = "cluster bootstrap, percentiles"
DRAWS = 2000
TAIL = 0.025
MOST_UNDEFINED = TAIL
"""Share of draws without a value; above it they could fill a whole tail."""


def cluster_bootstrap(
    units: Sequence[Unit], cluster: Callable[[Unit], str], metric: Metric[Unit], seed: int, draws: int = DRAWS
) -> Interval:
    groups = _grouped(units, cluster)
    estimate = metric(units) if units else None
    if estimate is None:
        return undefined(None, len(units), len(groups), METHOD, "not defined on these data")
    measured = _measured(estimate)
    if len(groups) < 2:
        return undefined(measured, len(units), len(groups), METHOD, "1 cluster")
    values = _redrawn(groups, metric, seed, draws)
    if draws - len(values) > MOST_UNDEFINED * draws:
        why = f"not defined in {draws - len(values)} of {draws} draws"
        return undefined(measured, len(units), len(groups), METHOD, why)
    low, high = _percentiles(values)
    if high - low <= NO_WIDTH:
        return undefined(measured, len(units), len(groups), METHOD, "no spread between clusters")
    why = _remark((estimate, low, high), draws - len(values), draws)
    return Interval(
        measured, _measured(low), _measured(high), len(units), len(groups), METHOD, why, seed=seed, draws=draws
    )


def _grouped(units: Sequence[Unit], cluster: Callable[[Unit], str]) -> list[list[Unit]]:
    groups: dict[str, list[Unit]] = {}
    for unit in units:
        groups.setdefault(cluster(unit), []).append(unit)
    # By name, so that the order in which rows were read does not move the bounds.
    return [groups[name] for name in sorted(groups)]


def _redrawn(groups: list[list[Unit]], metric: Metric[Unit], seed: int, draws: int) -> list[float]:
    """Sorted values of the metric on the draws that have one."""
    chosen = np.random.default_rng(seed).integers(len(groups), size=(draws, len(groups)))  # (draws, clusters)
    values = (metric([unit for index in row for unit in groups[index]]) for row in chosen.tolist())
    return sorted(value for value in values if value is not None)


def _percentiles(ordered: list[float]) -> tuple[float, float]:
    """Observed values, none between two: infinity cannot be interpolated."""
    tail = max(0, ceil(TAIL * len(ordered)) - 1)
    return ordered[tail], ordered[-1 - tail]


def _measured(value: float) -> float | None:
    return None if isinf(value) else value


def _remark(values: tuple[float, float, float], missing: int, draws: int) -> str:
    if any(isinf(value) for value in values):
        return "lies beyond what was measured"
    return f"{missing} of {draws} draws left out: not defined" if missing else ""
