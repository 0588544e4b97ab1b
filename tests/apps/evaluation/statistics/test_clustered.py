from math import sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.evaluation.statistics.clustered import clustered_error, success_rate, task_mean
from apps.evaluation.statistics.interval import StatisticsError
from apps.evaluation.statistics.proportion import wilson
from apps.evaluation.statistics.tries import TaskTries

from .samples import alone, bounds, tasks_of, verdicts

FOUR_FAMILIES: tuple[list[float], ...] = ([1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0])


def test_the_clustered_error_is_the_published_one() -> None:
    values = [value for family in FOUR_FAMILIES for value in family]
    families = [str(n) for n, family in enumerate(FOUR_FAMILIES) for _ in family]
    naive = clustered_error(values, [str(n) for n in range(16)])
    clustered = clustered_error(values, families)
    assert naive == pytest.approx(0.1291, abs=5e-5)
    assert clustered == pytest.approx(0.2282, abs=5e-5)
    assert clustered is not None
    assert clustered * sqrt(3 / 4) == pytest.approx(0.1976, abs=5e-5)


def test_the_interval_uses_t_with_one_degree_less_than_clusters() -> None:
    found = task_mean(tasks_of(*FOUR_FAMILIES))
    assert (found.estimate, found.n, found.clusters) == (0.5, 16, 4)
    assert found.high == pytest.approx(0.5 + 3.18245 * 0.228218, abs=1e-4)
    assert found.why == "only 4 clusters: unreliable"


def test_a_rate_stays_within_zero_and_one() -> None:
    found = success_rate(tasks_of(*FOUR_FAMILIES))
    assert (found.low, found.high) == (0, 1)


def test_one_cluster_has_no_interval() -> None:
    found = success_rate(tasks_of([1, 0, 1]))
    assert found.estimate == pytest.approx(2 / 3)
    assert (found.low, found.high, found.why) == (None, None, "1 cluster")


def test_tasks_count_once_however_often_they_were_tried() -> None:
    found = success_rate(
        (TaskTries("a", "a", (1.0,) * 9), TaskTries("b", "b", (0.0,)), TaskTries("c", "c", (0.0, 1.0)))
    )
    assert found.estimate == pytest.approx(0.5)
    assert found.n == 3


def test_lone_verdicts_get_a_wilson_interval() -> None:
    assert success_rate(alone(*[1.0] * 8, 0, 0)) == wilson(8, 10)


def test_families_that_all_agree_count_as_one_try_each() -> None:
    found = success_rate(tasks_of(*[[1.0, 1.0]] * 10))
    assert (found.method, found.n, found.clusters) == ("wilson over families", 20, 10)
    assert bounds(found) == pytest.approx((0.7225, 1), abs=5e-5)


def test_no_tasks_have_no_mean() -> None:
    assert success_rate(()).estimate is None


def test_a_rate_of_other_numbers_is_refused() -> None:
    with pytest.raises(StatisticsError, match="from 0 to 1"):
        success_rate(alone(2, 0))


@given(verdicts())
def test_bounds_enclose_the_rate_within_zero_and_one(tasks: tuple[TaskTries, ...]) -> None:
    found = success_rate(tasks)
    assert found.estimate is not None
    if found.clusters == 1 and found.n > 1:
        assert not found.defined
    elif found.defined:
        low, high = bounds(found)
        assert 0 <= low <= found.estimate + 1e-12
        assert found.estimate - 1e-12 <= high <= 1
        assert low < high


@given(verdicts(), st.randoms(use_true_random=False))
def test_the_order_of_tasks_does_not_matter(tasks: tuple[TaskTries, ...], random: Random) -> None:
    shuffled = list(tasks)
    random.shuffle(shuffled)
    one, other = success_rate(tasks), success_rate(shuffled)
    assert one.estimate == other.estimate
    assert (one.low is None) == (other.low is None)
    assert one.low is None or one.low == pytest.approx(other.low, abs=1e-12)
