from collections.abc import Sequence
from math import fsum, inf

import pytest
from hypothesis import given, settings

from apps.evaluation.statistics.bootstrap import cluster_bootstrap
from apps.evaluation.statistics.clustered import task_mean
from apps.evaluation.statistics.interval import Interval
from apps.evaluation.statistics.tries import TaskTries

from .samples import alone, bounds, tasks_of, verdicts

SPREAD = alone(*[n / 40 for n in range(40)])


def mean(tasks: Sequence[TaskTries]) -> float:
    return fsum(sorted(task.mean for task in tasks)) / len(tasks)


def bootstrap(tasks: Sequence[TaskTries], seed: int = 7, draws: int = 2000) -> Interval:
    return cluster_bootstrap(tasks, lambda task: task.family, mean, seed, draws)


def test_the_bounds_of_a_mean_agree_with_t() -> None:
    drawn, exact = bootstrap(SPREAD), task_mean(SPREAD)
    assert drawn.estimate == exact.estimate
    assert bounds(drawn) == pytest.approx(bounds(exact), abs=0.02)


def test_the_seed_is_kept_and_gives_the_same_bounds_again() -> None:
    found = bootstrap(SPREAD)
    assert (found.seed, found.draws) == (7, 2000)
    assert bootstrap(SPREAD) == found
    assert bootstrap(SPREAD, seed=8).low != found.low


def test_whole_families_are_drawn() -> None:
    found = bootstrap(tasks_of([1.0] * 50, [0.0] * 50, [1.0] * 50, [0.0] * 50))
    assert (found.low, found.high) == (0, 1)


def test_one_cluster_has_no_interval() -> None:
    found = bootstrap(tasks_of([1, 0, 1]))
    assert (found.low, found.high, found.why) == (None, None, "1 cluster")


def test_equal_draws_give_no_interval_of_zero_width() -> None:
    found = bootstrap(alone(1, 1, 1))
    assert (found.estimate, found.low, found.why) == (1, None, "no spread between clusters")


def test_a_metric_not_defined_on_many_draws_has_no_interval() -> None:
    def cost_per_solve(tasks: Sequence[TaskTries]) -> float | None:
        solved = sum(task.solved for task in tasks)
        return len(tasks) / solved if solved else None

    found = cluster_bootstrap(alone(1, 0, 0, 0, 0), lambda task: task.family, cost_per_solve, seed=1)
    assert (found.estimate, found.low) == (5, None)
    assert found.why.startswith("not defined in ")
    assert found.why.endswith(" of 2000 draws")


def test_an_infinite_bound_is_said_not_to_be_known() -> None:
    def cost_per_solve(tasks: Sequence[TaskTries]) -> float:
        solved = sum(task.solved for task in tasks)
        return len(tasks) / solved if solved else inf

    found = cluster_bootstrap(alone(1, 0, 0, 0, 0), lambda task: task.family, cost_per_solve, seed=1)
    assert found.estimate == 5
    assert found.low is not None
    assert found.high is None
    assert found.why == "lies beyond what was measured"


def test_nothing_to_draw_from_has_no_estimate() -> None:
    assert bootstrap(()).estimate is None


@settings(max_examples=25, deadline=None)
@given(verdicts())
def test_the_order_of_tasks_does_not_matter(tasks: tuple[TaskTries, ...]) -> None:
    assert bootstrap(tasks, draws=100) == bootstrap(tasks[::-1], draws=100)
