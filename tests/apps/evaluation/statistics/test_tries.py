import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.evaluation.statistics.interval import StatisticsError
from apps.evaluation.statistics.tries import TaskTries, Try, tries_by_task


def test_tries_are_gathered_by_task() -> None:
    tries = [Try("b", "f", 1), Try("a", "f", 0), Try("b", "f", 0)]
    assert tries_by_task(tries) == (TaskTries("a", "f", (0,)), TaskTries("b", "f", (0, 1)))


def test_a_task_in_two_families_is_refused() -> None:
    with pytest.raises(StatisticsError, match="two families"):
        tries_by_task([Try("a", "f", 1), Try("a", "g", 1)])


def test_a_task_without_tries_is_refused() -> None:
    with pytest.raises(StatisticsError, match="no tries"):
        TaskTries("a", "f", ())


@given(st.permutations([Try(f"t{n % 3}", "f", n) for n in range(7)]))
def test_the_order_of_tries_does_not_matter(tries: list[Try]) -> None:
    assert tries_by_task(tries) == tries_by_task(sorted(tries, key=lambda one: one.value))
