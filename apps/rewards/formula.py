"""Reward formulas: what a grade is worth. Pure, named, and never changed: another rule is another version.

An attempt without a verdict never gets a reward.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from typing import Literal


class RewardError(Exception):
    """No reward can be given."""


class NoVerdictError(RewardError):
    """Infra broke the attempt: it says nothing about the agent."""

    def __init__(self, trajectory_id: int) -> None:
        super().__init__(f"trajectory {trajectory_id} has no verdict")
        self.trajectory_id = trajectory_id


class BadScoreError(RewardError):
    """The task's tests wrote a score that is no number from 0 to 1."""

    def __init__(self, trajectory_id: int, score: float | None) -> None:
        super().__init__(f"trajectory {trajectory_id} has the score {score}, which is not from 0 to 1")
        self.trajectory_id = trajectory_id
        self.score = score


class UnknownFormulaError(RewardError):
    def __init__(self, formula_id: str) -> None:
        super().__init__(f"no formula {formula_id}; there are {', '.join(FORMULAS)}")
        self.formula_id = formula_id


@dataclass(frozen=True, slots=True)
class GradedTry:
    trajectory_id: int
    verdict: Literal["solved", "unsolved", "none"]
    score: float | None
    """What the task's own tests wrote."""
    rounds: int
    sampled_tokens: int
    seed: int
    """Of the run: what a random formula draws from, with the trajectory's id."""


@dataclass(frozen=True, slots=True)
class Formula:
    name: str
    version: int
    meaning: str
    """For the people who choose it."""
    compute: Callable[[GradedTry], float]

    @property
    def id(self) -> str:
        return f"{self.name}@{self.version}"

    def reward(self, graded: GradedTry) -> float:
        """Raises NoVerdictError or BadScoreError, whatever the formula: every arm drops the same tries."""
        valid_score(graded)
        return self.compute(graded)


def valid_score(graded: GradedTry) -> float:
    """From 0 to 1. Raises NoVerdictError or BadScoreError."""
    if graded.verdict == "none":
        raise NoVerdictError(graded.trajectory_id)
    if graded.score is None or not isfinite(graded.score) or not 0 <= graded.score <= 1:
        raise BadScoreError(graded.trajectory_id, graded.score)
    return float(graded.score)


def formula(formula_id: str) -> Formula:
    """Raises UnknownFormulaError."""
    if formula_id not in FORMULAS:
        raise UnknownFormulaError(formula_id)
    return FORMULAS[formula_id]


def _all_or_nothing(graded: GradedTry) -> float:
    return 1.0 if valid_score(graded) >= 1 else 0.0


def _coin(graded: GradedTry) -> float:
    digest = sha256(f"coin:{graded.seed}:{graded.trajectory_id}".encode()).digest()
    return float(digest[0] & 1)


ALL_OR_NOTHING = Formula("all-or-nothing", 1, "1 if every check of the task passed, else 0", _all_or_nothing)
SCORE = Formula("score", 1, "the task's own score, from 0 to 1", valid_score)
COIN = Formula("coin", 1, "control arm: a fair coin, blind to the grade", _coin)

FORMULAS: dict[str, Formula] = {one.id: one for one in (ALL_OR_NOTHING, SCORE, COIN)}
