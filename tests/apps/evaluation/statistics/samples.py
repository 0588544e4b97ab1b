"""Tries to compute with, hand-made and drawn."""

from hypothesis import strategies as st

from apps.evaluation.statistics.interval import Interval
from apps.evaluation.statistics.tries import TaskTries, Try, tries_by_task


def bounds(interval: Interval) -> tuple[float, float]:
    assert interval.low is not None, interval.why
    assert interval.high is not None, interval.why
    return interval.low, interval.high


def alone(*values: float) -> tuple[TaskTries, ...]:
    """Tasks of one try, each its own family."""
    return tuple(TaskTries(f"t{n}", f"t{n}", (value,)) for n, value in enumerate(values))


def tasks_of(*families: list[float]) -> tuple[TaskTries, ...]:
    """A task of one try for each value; a family for each list."""
    return tuple(
        TaskTries(f"t{family}.{n}", f"f{family}", (value,))
        for family, values in enumerate(families)
        for n, value in enumerate(values)
    )


def verdicts(tasks: int = 12, families: int = 4, tries: int = 5) -> st.SearchStrategy[tuple[TaskTries, ...]]:
    """Tasks 0, 1, ... in families by their number, with a few verdicts each."""
    one = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=tries)
    drawn = st.dictionaries(st.integers(0, tasks - 1), one, min_size=1)
    return drawn.map(
        lambda found: tries_by_task(
            Try(f"t{task}", f"f{task % families}", value) for task, values in found.items() for value in values
        )
    )
