"""Which tasks next: rather those that are neither solved nor hopeless, first of families, then within one. Pure.

Counts may be faded by age before they come in, so they need not be whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

PRIOR = 1.0
"""Successes and failures that every task is taken to have had: a task without tries counts as even."""
FLOOR = 0.02
"""Of the weight: what is always solved or never is still tried at times. An even task weighs 0.25 above it."""
AT_ONCE = 2
"""Tasks of one family side by side: few families teach at a time, but a batch should not be of one alone."""


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
    """4 (p(1-p))^2 + floor: how much a group of this task may be expected to teach.

    The gradient of a success rate p by the policy's logits is in proportion to p(1-p), and what a small step along it
    gains is in proportion to its square.
    """
    success = expected_success(candidate)
    return 4 * (success * (1 - success)) ** 2 + floor


def choose(candidates: Sequence[Candidate], n: int, rng: Random, *, floor: float = FLOOR) -> list[int]:
    """Ids of n different tasks, or of all if there are fewer.

    Families are drawn by weight, each at most AT_ONCE times before all have been; then a task of the family, by weight.
    """
    left: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        left.setdefault(candidate.family, []).append(candidate)
    chosen: list[int] = []
    deck: list[str] = []
    while left and len(chosen) < n:
        deck = deck or shuffled_families(left, rng, floor)
        family = deck.pop(0)
        chosen.append(draw(left[family], rng, floor).task_id)
        if not left[family]:
            del left[family]
    return chosen


def family_weight(pool: Sequence[Candidate], floor: float = FLOOR) -> float:
    """From the tries of all its tasks together: a family that is solved, or beyond reach, teaches little just now."""
    together = Candidate(
        task_id=0,
        family=pool[0].family,
        successes=sum(candidate.successes for candidate in pool),
        trials=sum(candidate.trials for candidate in pool),
    )
    return weight(together, floor)


def shuffled_families(left: Mapping[str, Sequence[Candidate]], rng: Random, floor: float) -> list[str]:
    """Every family a few times, the heavier rather early: drawn by weight without putting back."""
    cards = [
        (rng.random() ** (1 / family_weight(pool, floor)), family)
        for family, pool in left.items()
        for _ in range(min(len(pool), AT_ONCE))
    ]
    return [family for _, family in sorted(cards, reverse=True)]


def draw(pool: list[Candidate], rng: Random, floor: float) -> Candidate:
    """Take one out of the pool, by weight."""
    (index,) = rng.choices(range(len(pool)), [weight(candidate, floor) for candidate in pool])
    return pool.pop(index)
