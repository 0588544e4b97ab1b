"""Means over tasks (each task counts once, however many tries it had), with errors clustered by family."""

from collections.abc import Sequence
from dataclasses import replace
from math import fsum, sqrt

from .interval import Interval, StatisticsError, t_interval, undefined
from .proportion import wilson, wilson_bounds
from .tries import TaskTries, family_count

TASK_MEAN = "task mean, clustered t"


def clustered_error(values: Sequence[float], clusters: Sequence[str]) -> float | None:
    """The standard error of the mean with the C/(C-1) correction; None for one cluster."""
    count = len(set(clusters))
    if count < 2:
        return None
    mean = fsum(values) / len(values)
    parts: dict[str, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        parts.setdefault(cluster, []).append(value - mean)
    squares = fsum(fsum(part) ** 2 for part in parts.values())
    return sqrt(count / (count - 1) * squares) / len(values)


def clustered_mean(values: Sequence[float], clusters: Sequence[str], method: str = TASK_MEAN) -> Interval:
    n, count = len(values), len(set(clusters))
    if n == 0:
        return undefined(None, 0, 0, method, "no tasks")
    estimate = fsum(values) / n
    error = clustered_error(values, clusters)
    if error is None:
        return undefined(estimate, n, count, method, "1 cluster")
    return t_interval(estimate, error, count - 1, n, count, method)


def task_mean(tasks: Sequence[TaskTries]) -> Interval:
    """Of any number: rounds, seconds, cost. For shares use success_rate."""
    return clustered_mean([task.mean for task in tasks], [task.family for task in tasks])


def success_rate(tasks: Sequence[TaskTries]) -> Interval:
    """Of values within [0, 1]. Wilson where every task stands alone with one verdict."""
    values = [value for task in tasks for value in task.values]
    if any(not 0 <= value <= 1 for value in values):
        raise StatisticsError("a rate is made of values from 0 to 1")
    alone = len(values) == len(tasks) == family_count(tasks)
    if alone and all(value in (0, 1) for value in values):
        return wilson(int(sum(values)), len(values))
    found = task_mean(tasks)
    if found.estimate is None or found.clusters < 2:
        return found
    if found.low is None or found.high is None:
        return _without_spread(found, found.estimate)
    return replace(found, low=max(0.0, found.low), high=min(1.0, found.high))


def _without_spread(found: Interval, estimate: float) -> Interval:
    """Families that all agree still are only so many: Wilson, with each family as one try."""
    low, high = wilson_bounds(min(1.0, max(0.0, estimate)), found.clusters)
    why = "no spread between families: each counted as one try"
    return replace(found, low=low, high=high, method="wilson over families", why=why)
