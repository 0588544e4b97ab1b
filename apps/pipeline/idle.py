"""Who waited for whom during GRPO: shares of wall time, from the times of rollouts and learner steps."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.rollouts.models import Rollout
from apps.runs.models import Run
from apps.training.models import LearnerStep

Span = tuple[float, float]
"""Start and end, unix seconds."""


@dataclass(frozen=True)
class IdleShares:
    """Of the wall time from the first training claim to the end of the last step."""

    seconds: float
    learner_waited: float
    """Share in which no step was being made: the learner waited for data."""
    sampler_waited: float
    """Share in which no training try was in flight while a step was: the sampler waited for weights."""


def merged(spans: Iterable[Span]) -> list[Span]:
    """The union of spans, sorted, without overlaps."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif end > start:
            found.append((start, end))
    return found


def covered(spans: Iterable[Span], within: Span) -> float:
    """Seconds of a span that a union of spans covers."""
    start, end = within
    clipped = ((max(start, low), min(end, high)) for low, high in spans)
    return sum(high - low for low, high in merged(span for span in clipped if span[1] > span[0]))


def shares(steps: list[Span], tries: list[Span]) -> IdleShares | None:
    """None before the first step has ended."""
    if not steps or not tries:
        return None
    whole = (min(start for start, _ in tries), max(end for _, end in steps))
    seconds = whole[1] - whole[0]
    if seconds <= 0:
        return None
    busy = merged(tries)
    waited = sum(end - start - covered(busy, (start, end)) for start, end in merged(steps))
    return IdleShares(seconds, 1 - covered(steps, whole) / seconds, waited / seconds)


def idle_shares(run: Run) -> IdleShares | None:
    """Of a run's GRPO phase on the live branch."""
    steps = LearnerStep.objects.of(run).live().filter(kind="grpo").values_list("handed_at", "finished_at")
    tries = Rollout.objects.of(run).filter(group__purpose="train", state="recorded").exclude(claimed_at=None)
    return shares(
        [(start.timestamp(), end.timestamp()) for start, end in steps if end is not None],
        [
            (start.timestamp(), end.timestamp())
            for start, end in tries.values_list("claimed_at", "finished_at")
            if start is not None and end is not None
        ],
    )
