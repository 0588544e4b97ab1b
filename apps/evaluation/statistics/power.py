"""How small a difference so many tasks can show, and how many tasks a difference needs (two-sided 5 %)."""

from dataclasses import dataclass
from math import ceil, sqrt

from .interval import StatisticsError, normal_quantile

POWER = 0.8


@dataclass(frozen=True, slots=True)
class PairedSpread:
    """What makes a paired difference uncertain."""

    between_tasks: float
    """Variance of the true difference from task to task."""
    within_a: float
    """Mean variance of one try about its task's own rate."""
    within_b: float
    tries_a: int
    """A task."""
    tries_b: int

    @property
    def of_one_task(self) -> float:
        if min(self.tries_a, self.tries_b) < 1:
            raise StatisticsError("a task without tries shows nothing")
        return self.between_tasks + self.within_a / self.tries_a + self.within_b / self.tries_b


def tasks_needed(difference: float, spread: PairedSpread, power: float = POWER) -> int:
    if difference <= 0:
        raise StatisticsError(f"the difference to detect is {difference}")
    return ceil(_quantiles(power) ** 2 * spread.of_one_task / difference**2)


def detectable_difference(tasks: int, spread: PairedSpread, power: float = POWER) -> float:
    if tasks < 1:
        raise StatisticsError("no tasks")
    return detectable_from_error(sqrt(spread.of_one_task / tasks), power)


def detectable_from_error(error: float, power: float = POWER) -> float:
    """From the standard error of a difference that was measured."""
    return _quantiles(power) * error


def _quantiles(power: float) -> float:
    return normal_quantile(0.975) + normal_quantile(power)
