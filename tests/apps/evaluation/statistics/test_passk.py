import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.evaluation.statistics.interval import StatisticsError
from apps.evaluation.statistics.passk import doubling_ks, pass_at_k, pass_curve, pass_hat_k, pass_point
from apps.evaluation.statistics.tries import TaskTries


@pytest.mark.parametrize(
    ("tries", "solved", "k", "any_of_k", "all_of_k"),
    [(8, 2, 1, 0.25, 0.25), (8, 2, 4, 0.785714, 0), (8, 6, 4, 1, 0.214286), (4, 4, 4, 1, 1), (8, 0, 4, 0, 0)],
)
def test_the_published_values(tries: int, solved: int, k: int, any_of_k: float, all_of_k: float) -> None:
    assert pass_at_k(tries, solved, k) == pytest.approx(any_of_k, abs=1e-6)
    assert pass_hat_k(tries, solved, k) == pytest.approx(all_of_k, abs=1e-6)


def test_fewer_tries_than_k_define_nothing_even_if_all_solved() -> None:
    assert pass_at_k(3, 3, 4) is None
    assert pass_hat_k(3, 3, 4) is None


@pytest.mark.parametrize(("tries", "solved", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0)])
def test_impossible_counts_are_refused(tries: int, solved: int, k: int) -> None:
    with pytest.raises(StatisticsError):
        pass_at_k(tries, solved, k)


def task(name: str, solved: int, tries: int) -> TaskTries:
    return TaskTries(name, name, (1.0,) * solved + (0.0,) * (tries - solved))


def test_tasks_with_too_few_tries_are_left_out_and_counted() -> None:
    point = pass_point([task("a", 2, 4), task("b", 0, 4), task("c", 3, 3)], k=4, seed=1)
    assert (point.tasks, point.undefined, point.any_of_k.estimate, point.all_of_k.estimate) == (2, 1, 0.5, 0)


def test_no_task_with_enough_tries_gives_no_number() -> None:
    point = pass_point([task("a", 1, 2)], k=4, seed=1)
    assert (point.tasks, point.undefined, point.any_of_k.estimate) == (0, 1, None)


def test_the_curve_keeps_its_seed() -> None:
    points = pass_curve([task(str(n), n % 5, 4) for n in range(20)], doubling_ks(4), seed=3)
    assert [point.k for point in points] == [1, 2, 4]
    assert all(point.any_of_k.seed == 3 for point in points)
    assert points[0].any_of_k == points[0].all_of_k


def test_ks_double_up_to_the_tries() -> None:
    assert doubling_ks(9) == (1, 2, 4, 8)


@given(st.integers(1, 30), st.data())
def test_the_fan_opens_with_k(tries: int, data: st.DataObject) -> None:
    solved, k = data.draw(st.integers(0, tries)), data.draw(st.integers(1, tries))
    any_of_k, all_of_k = pass_at_k(tries, solved, k), pass_hat_k(tries, solved, k)
    assert any_of_k is not None
    assert all_of_k is not None
    assert 0 <= all_of_k <= solved / tries + 1e-12
    assert solved / tries - 1e-12 <= any_of_k <= 1
