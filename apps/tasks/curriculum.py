"""Which tasks next: families in turn, and within a family rather those that are neither solved nor hopeless. Pure.

Counts may be faded by age before they come in, so they need not be whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

PRIOR = 1.0
"""Successes and failures that every task is taken to have had: a task without tries counts as even."""
FLOOR = 0.05
"""Of the weight: what is always solved or never is still tried at times. An even task weighs 0.25 above it."""


@dataclass(frozen=True)
class Candidate:
    task_id: int
    family: str
    successes: float = 0.0
    trials: float = 0.0
    """Of rollouts with a verdict only: infra failures say nothing of the task."""


def expected_success(candidate: Candidate) -> float:
    """Mean of the Beta posterior."""
    return (candidate.successes + PRIOR) / (candidate.trials + 2 * PRIOR)


def weight(candidate: Candidate, floor: float = FLOOR) -> float:
    """p(1-p) + floor: how much a group of this task may be expected to teach."""
    success = expected_success(candidate)
    return success * (1 - success) + floor


def choose(
    candidates: Sequence[Candidate],
    n: int,
    rng: Random,
    *,
    served: Mapping[str, int] | None = None,
    floor: float = FLOOR,
) -> list[int]:
    """Ids of n different tasks, or of all if there are fewer.

    served: how often each family has had its turn before; the least served come first, ties in random order.
    """
    turns = dict.fromkeys((candidate.family for candidate in candidates), 0)
    turns |= {family: count for family, count in (served or {}).items() if family in turns}
    left: dict[str, list[Candidate]] = {family: [] for family in turns}
    for candidate in candidates:
        left[candidate.family].append(candidate)
    chosen: list[int] = []
    while left and len(chosen) < n:
        family = next_family(left, turns, rng)
        chosen.append(draw(left[family], rng, floor).task_id)
        turns[family] += 1
        if not left[family]:
            del left[family]
    return chosen


def next_family(left: Mapping[str, Sequence[Candidate]], turns: Mapping[str, int], rng: Random) -> str:
    fewest = min(turns[family] for family in left)
    return rng.choice([family for family in left if turns[family] == fewest])


def draw(pool: list[Candidate], rng: Random, floor: float) -> Candidate:
    """Take one out of the pool, by weight."""
    (index,) = rng.choices(range(len(pool)), [weight(candidate, floor) for candidate in pool])
    return pool.pop(index)
