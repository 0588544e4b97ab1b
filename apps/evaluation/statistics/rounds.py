"""How many rounds success takes: the share solved within k rounds, and the Kaplan-Meier median.

An unsolved try stays at risk up to the cap however the agent ended; only infra and our own early stops are censored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .clustered import success_rate
from .interval import NO_WIDTH, Interval, StatisticsError
from .tries import Try, tries_by_task


@dataclass(frozen=True, slots=True)
class RoundsTry:
    task: str
    """The task and its version."""
    family: str
    rounds: int
    """Used up to the first success, or up to the end without one."""
    end: Literal["solved", "unsolved", "stopped_early", "infra"]
    """stopped_early only where that left it unsolved."""


@dataclass(frozen=True, slots=True)
class SolvedWithin:
    rounds: int
    solved: int
    """Tries."""
    tries: int
    """With a verdict; those that infra ended are left out."""
    rate: Interval
    """Over tasks, each counting once."""


@dataclass(frozen=True, slots=True)
class RoundsToSuccess:
    median: int | None
    """None: not reached."""
    why: str
    """Why there is no median."""
    survival: tuple[float, ...]
    """Share still unsolved after round 1, 2, ... cap."""
    at_risk: tuple[int, ...]
    solved: tuple[int, ...]
    """In that very round."""
    tries: int
    censored: int
    """Their share is shown beside the median."""


def solved_within(tries: Sequence[RoundsTry], cap: int) -> tuple[SolvedWithin, ...]:
    """SR_k for k = 1 ... cap."""
    graded = _graded(tries, cap)
    return tuple(_solved_within(graded, k) for k in range(1, cap + 1))


def rounds_to_success(tries: Sequence[RoundsTry], cap: int) -> RoundsToSuccess:
    _check(tries, cap)
    at_risk = tuple(sum(_leaves_after(one, cap) >= k for one in tries) for k in range(1, cap + 1))
    solved = tuple(sum(one.end == "solved" and one.rounds == k for one in tries) for k in range(1, cap + 1))
    survival, left = [], 1.0
    for events, risk in zip(solved, at_risk, strict=True):
        left *= 1 - events / risk if risk else 1
        survival.append(left)
    median = next((k for k, share in enumerate(survival, start=1) if share <= 0.5 + NO_WIDTH), None)
    why = "" if median is not None else f"not reached within {cap} rounds" if tries else "no tries"
    censored = sum(one.end in ("infra", "stopped_early") for one in tries)
    return RoundsToSuccess(median, why, tuple(survival), at_risk, solved, len(tries), censored)


def _solved_within(graded: Sequence[RoundsTry], k: int) -> SolvedWithin:
    hits = [Try(one.task, one.family, float(one.end == "solved" and one.rounds <= k)) for one in graded]
    return SolvedWithin(k, sum(hit.value == 1 for hit in hits), len(graded), success_rate(tries_by_task(hits)))


def _leaves_after(one: RoundsTry, cap: int) -> int:
    return cap if one.end == "unsolved" else one.rounds


def _graded(tries: Sequence[RoundsTry], cap: int) -> list[RoundsTry]:
    _check(tries, cap)
    return [one for one in tries if one.end != "infra"]


def _check(tries: Sequence[RoundsTry], cap: int) -> None:
    if cap < 1:
        raise StatisticsError(f"a cap of {cap} rounds")
    for one in tries:
        if not (1 if one.end == "solved" else 0) <= one.rounds <= cap:
            raise StatisticsError(f"task {one.task}: {one.end} after {one.rounds} rounds of at most {cap}")
