"""The three numbers that always stand together: completion of all tries, completion of graded tries, infra rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .clustered import success_rate
from .interval import Interval, StatisticsError
from .tries import Try, tries_by_task


@dataclass(frozen=True, slots=True)
class Completion:
    """Counts. While a run goes on, only of tries that have ended."""

    solved: int
    """Tries whose last attempt was solved."""
    started: int
    """Tries; a parked one is among them, unsolved."""
    reached_verdict: int
    """Tries whose last attempt was graded."""
    infra: int
    """Attempts that infra broke, also where a later attempt succeeded."""
    planned: int
    """Tries."""
    attempts: int | None = None
    """Attempts started; None where no try was tried again."""

    def __post_init__(self) -> None:
        ordered = 0 <= self.solved <= self.reached_verdict <= self.started <= self.planned
        if not ordered or not 0 <= self.infra <= self.attempts_started or self.attempts_started < self.started:
            raise StatisticsError(f"counts do not fit together: {self}")

    @property
    def attempts_started(self) -> int:
        return self.started if self.attempts is None else self.attempts


@dataclass(frozen=True, slots=True)
class CompletionRates:
    counts: Completion
    intent_to_treat: Interval
    """Of all tries started: what infra broke is unsolved."""
    valid: Interval
    """Of tries that reached a verdict."""
    infra: Interval
    """Broken attempts of all attempts."""


@dataclass(frozen=True, slots=True)
class EndedTry:
    task: str
    """The task and its version."""
    family: str
    verdict: Literal["solved", "unsolved", "none"]
    """Of the last attempt."""
    attempts: int = 1
    broken: int = 0
    """Attempts that infra ended."""


def completion_of(tries: Sequence[EndedTry], planned: int) -> CompletionRates:
    """Each task counts once; intervals are clustered by family, the attempts of a try with them."""
    graded = [one for one in tries if one.verdict != "none"]
    counts = Completion(
        solved=sum(one.verdict == "solved" for one in tries),
        started=len(tries),
        reached_verdict=len(graded),
        infra=sum(one.broken for one in tries),
        planned=planned,
        attempts=sum(one.attempts for one in tries),
    )
    attempts = [
        Try(one.task, one.family, float(number < one.broken)) for one in tries for number in range(one.attempts)
    ]
    return CompletionRates(counts, _solved_rate(tries), _solved_rate(graded), success_rate(tries_by_task(attempts)))


def _solved_rate(tries: Sequence[EndedTry]) -> Interval:
    return success_rate(tries_by_task(Try(one.task, one.family, float(one.verdict == "solved")) for one in tries))
