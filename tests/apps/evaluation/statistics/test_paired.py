import pytest
from hypothesis import given

from apps.evaluation.statistics.interval import StatisticsError
from apps.evaluation.statistics.paired import paired_difference
from apps.evaluation.statistics.tries import TaskTries

from .samples import alone, tasks_of, verdicts

A = alone(0.5, 0.75, 1, 0, 0.25)
B = alone(0.25, 0.75, 0.75, 0, 0)


def test_the_paired_difference_is_the_published_one() -> None:
    found = paired_difference(A, B)
    assert found.interval.estimate == pytest.approx(0.15)
    # Standard error .0612, t with 4 degrees.
    assert found.interval.high == pytest.approx(0.15 + 2.77645 * 0.061237, abs=1e-4)
    assert (found.better, found.worse, found.tied) == (3, 0, 2)
    assert found.p_value == pytest.approx(0.0705, abs=5e-5)


def test_what_the_tasks_could_have_shown_follows_from_their_error() -> None:
    assert paired_difference(A, B).detectable == pytest.approx(2.801585 * 0.061237, abs=1e-5)


def test_tasks_of_one_side_only_are_left_out_and_counted() -> None:
    found = paired_difference(A, B[1:])
    assert (found.only_a, found.only_b, found.interval.n) == (1, 0, 4)


def test_another_version_of_a_task_is_not_its_pair() -> None:
    found = paired_difference([TaskTries("a@1", "f", (1,))], [TaskTries("a@2", "f", (1,))])
    assert (found.interval.estimate, found.only_a, found.only_b, found.interval.why) == (None, 1, 1, "no tasks")


def test_one_family_gives_a_difference_without_interval_or_p() -> None:
    found = paired_difference(tasks_of([1, 1, 0]), tasks_of([1, 0, 0]))
    assert found.interval.estimate == pytest.approx(1 / 3)
    assert (found.interval.why, found.p_value, found.detectable) == ("1 cluster", None, None)


def test_two_equal_sides_are_tied_and_no_certainty_is_claimed() -> None:
    found = paired_difference(A, A)
    assert (found.tied, found.interval.estimate, found.interval.low) == (5, 0, None)


def test_a_task_in_another_family_on_the_other_side_is_refused() -> None:
    with pytest.raises(StatisticsError, match="two families"):
        paired_difference([TaskTries("a", "f", (1,))], [TaskTries("a", "g", (1,))])


def test_a_task_twice_on_one_side_is_refused() -> None:
    with pytest.raises(StatisticsError, match="twice"):
        paired_difference([*A, A[0]], B)


@given(verdicts(), verdicts())
def test_changing_sides_changes_the_sign_alone(a: tuple[TaskTries, ...], b: tuple[TaskTries, ...]) -> None:
    one, other = paired_difference(a, b), paired_difference(b, a)
    assert (one.better, one.worse, one.tied) == (other.worse, other.better, other.tied)
    assert (one.only_a, one.only_b) == (other.only_b, other.only_a)
    assert one.p_value == (None if other.p_value is None else pytest.approx(other.p_value))
    if one.interval.low is not None:
        assert other.interval.high == pytest.approx(-one.interval.low, abs=1e-12)
        assert other.interval.estimate == pytest.approx(-(one.interval.estimate or 0), abs=1e-12)


@given(verdicts(), verdicts())
def test_the_order_of_tasks_does_not_matter(a: tuple[TaskTries, ...], b: tuple[TaskTries, ...]) -> None:
    assert paired_difference(a, b) == paired_difference(a[::-1], b[::-1])
