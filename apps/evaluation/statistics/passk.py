"""pass@k (one of k tries solves) and pass^k (all k do), unbiased; not defined for a task with fewer than k tries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb, fsum

from .bootstrap import cluster_bootstrap
from .interval import Interval, StatisticsError
from .tries import TaskTries

Estimator = Callable[[int, int, int], float | None]


@dataclass(frozen=True, slots=True)
class PassPoint:
    k: int
    any_of_k: Interval
    """pass@k, mean over the tasks on which it is defined."""
    all_of_k: Interval
    """pass^k; its distance to pass@k is inconsistency."""
    tasks: int
    """Tasks with at least k tries."""
    undefined: int
    """Tasks with fewer: left out."""


def pass_at_k(tries: int, solved: int, k: int) -> float | None:
    _check(tries, solved, k)
    return None if tries < k else 1 - comb(tries - solved, k) / comb(tries, k)


def pass_hat_k(tries: int, solved: int, k: int) -> float | None:
    _check(tries, solved, k)
    return None if tries < k else comb(solved, k) / comb(tries, k)


def pass_curve(tasks: Sequence[TaskTries], ks: Sequence[int], seed: int) -> tuple[PassPoint, ...]:
    return tuple(pass_point(tasks, k, seed) for k in ks)


def pass_point(tasks: Sequence[TaskTries], k: int, seed: int) -> PassPoint:
    enough = sorted((task for task in tasks if len(task.values) >= k), key=lambda task: task.task)
    return PassPoint(
        k=k,
        any_of_k=_over_tasks(enough, pass_at_k, k, seed),
        all_of_k=_over_tasks(enough, pass_hat_k, k, seed),
        tasks=len(enough),
        undefined=len(tasks) - len(enough),
    )


def doubling_ks(most_tries: int) -> tuple[int, ...]:
    """1, 2, 4, 8 ... up to the tries that a task had."""
    return tuple(2**power for power in range(most_tries.bit_length()))


def _over_tasks(tasks: Sequence[TaskTries], estimator: Estimator, k: int, seed: int) -> Interval:
    # Once a task, not once a draw.
    scored = [(task.family, estimator(len(task.values), task.solved, k)) for task in tasks]
    defined = [(family, value) for family, value in scored if value is not None]
    return cluster_bootstrap(defined, _family, _mean, seed)


def _family(scored: tuple[str, float]) -> str:
    return scored[0]


def _mean(scored: Sequence[tuple[str, float]]) -> float:
    return fsum(value for _, value in scored) / len(scored)


def _check(tries: int, solved: int, k: int) -> None:
    if k < 1 or not 0 <= solved <= tries:
        raise StatisticsError(f"{solved} solved of {tries} tries, k = {k}")
