"""Two sides compared task by task, on the tasks that both tried."""

from collections.abc import Sequence
from dataclasses import dataclass

from .clustered import clustered_error, clustered_mean
from .interval import NO_WIDTH, Interval, StatisticsError, t_two_sided_p
from .power import detectable_from_error
from .tries import TaskTries


@dataclass(frozen=True, slots=True)
class PairedDifference:
    interval: Interval
    """Of the mean of a minus b over the shared tasks."""
    better: int
    """Shared tasks on which a is above b."""
    worse: int
    tied: int
    only_a: int
    """Tasks that b did not try: left out."""
    only_b: int
    p_value: float | None
    """Two-sided, not corrected for other comparisons or repeated looks; None where the interval is not defined."""
    detectable: float | None
    """The smallest true difference that these tasks would show in four of five repetitions."""


def paired_difference(a: Sequence[TaskTries], b: Sequence[TaskTries]) -> PairedDifference:
    side_a, side_b = _by_name(a), _by_name(b)
    shared = sorted(side_a.keys() & side_b.keys())
    for task in shared:
        if side_a[task].family != side_b[task].family:
            raise StatisticsError(f"task {task} is in two families: {side_a[task].family}, {side_b[task].family}")
    differences = [side_a[task].mean - side_b[task].mean for task in shared]
    families = [side_a[task].family for task in shared]
    interval = clustered_mean(differences, families, "paired difference, clustered t")
    error = clustered_error(differences, families) if interval.defined else None
    return PairedDifference(
        interval=interval,
        better=sum(difference > NO_WIDTH for difference in differences),
        worse=sum(difference < -NO_WIDTH for difference in differences),
        tied=sum(abs(difference) <= NO_WIDTH for difference in differences),
        only_a=len(side_a) - len(shared),
        only_b=len(side_b) - len(shared),
        p_value=_p_value(interval, error),
        detectable=None if error is None else detectable_from_error(error),
    )


def _by_name(tasks: Sequence[TaskTries]) -> dict[str, TaskTries]:
    named = {task.task: task for task in tasks}
    if len(named) != len(tasks):
        raise StatisticsError("a task appears twice on one side")
    return named


def _p_value(interval: Interval, error: float | None) -> float | None:
    if interval.estimate is None or error is None:
        return None
    return t_two_sided_p(interval.estimate / error, interval.clusters - 1)
