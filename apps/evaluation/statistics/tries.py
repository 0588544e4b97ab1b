"""The tries of each task: what every estimate over tasks starts from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from .interval import StatisticsError


@dataclass(frozen=True, slots=True)
class Try:
    task: str
    """The task and its version: another version is another task."""
    family: str
    """What may not be taken as independent; the task itself where there are no families."""
    value: float
    """1 or 0 for a verdict; any number for rounds, seconds or cost."""


@dataclass(frozen=True, slots=True)
class TaskTries:
    task: str
    family: str
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise StatisticsError(f"task {self.task} has no tries")

    @property
    def mean(self) -> float:
        return fsum(self.values) / len(self.values)


def tries_by_task(tries: Iterable[Try]) -> tuple[TaskTries, ...]:
    """Sorted by task, whatever the order of the tries."""
    values: dict[str, list[float]] = {}
    families: dict[str, str] = {}
    for one in tries:
        if families.setdefault(one.task, one.family) != one.family:
            raise StatisticsError(f"task {one.task} is in two families: {families[one.task]}, {one.family}")
        values.setdefault(one.task, []).append(one.value)
    return tuple(TaskTries(task, families[task], tuple(sorted(values[task]))) for task in sorted(values))


def family_count(tasks: Sequence[TaskTries]) -> int:
    return len({task.family for task in tasks})
