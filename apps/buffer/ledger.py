"""The ledger: every attempt and every sampled token of a run stands in exactly one place, and the sums agree.

Each side is counted from tables of its own, so that an error shows as a difference and not as a rounding.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Count, Sum
from django.utils import timezone

from apps.buffer import states
from apps.buffer.models import Batch, Sample
from apps.rollouts.models import Attempt, Rollout
from apps.runs.models import Run
from apps.trajectories.models import Trajectory

ENTERS_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True)
class Ledger:
    """Counts of attempts and of sampled tokens."""

    claimed: int
    """Fences ever given out."""
    active: int
    recorded: int
    lost: int
    cancelled: int
    recorded_tokens: int
    evaluation_tokens: int
    buffered_tokens: int
    handed_tokens: int
    trained_tokens: int
    discarded_tokens: dict[str, int] = field(default_factory=dict)
    sft_tokens: int = 0
    """Trainable ids of applied SFT batches: counted apart."""
    problems: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return not self.problems


def ledger(run: Run) -> Ledger:
    """The ledger as of now, in one consistent look: a pass may write while it is read."""
    with transaction.atomic():
        if len(connection.savepoint_ids) == 0:
            connection.cursor().execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return _ledger(run)


def _ledger(run: Run) -> Ledger:
    attempts = dict(Attempt.objects.of(run).values_list("state").annotate(n=Count("id")))
    claimed = Rollout.objects.of(run).aggregate(n=Sum("fence"))["n"] or 0
    tokens = _recorded_tokens(run)
    samples = _sample_tokens(run)
    discarded = {reason: n for (state, reason), n in samples.items() if state == states.DISCARDED}
    counted = Ledger(
        claimed=int(claimed),
        active=attempts.get("active", 0),
        recorded=attempts.get("recorded", 0),
        lost=attempts.get("lost", 0),
        cancelled=attempts.get("cancelled", 0),
        recorded_tokens=sum(tokens.values()),
        evaluation_tokens=tokens["evaluation"],
        buffered_tokens=samples.get((states.BUFFERED, ""), 0) + tokens["entering"],
        handed_tokens=samples.get((states.HANDED, ""), 0),
        trained_tokens=samples.get((states.TRAINED, ""), 0),
        discarded_tokens=discarded,
        sft_tokens=Batch.objects.filter(run=run, kind="sft", state=states.APPLIED).aggregate(n=Sum("tokens"))["n"] or 0,
    )
    problems = _problems(run, counted)
    if left := _left_outside(run):
        problems.append(f"attempts: {left} recorded, but neither buffered nor discarded")
    return Ledger(**{**counted.__dict__, "problems": tuple(problems)})


_TOKENS = """
SELECT coalesce(sum(t.sampled_tokens) FILTER (WHERE g.purpose IN ('evaluation', 'control')), 0),
       coalesce(sum(t.sampled_tokens) FILTER (WHERE g.purpose = 'train' AND s.trajectory_id IS NOT NULL), 0),
       coalesce(sum(t.sampled_tokens) FILTER (WHERE g.purpose = 'train' AND s.trajectory_id IS NULL), 0)
FROM trajectories_trajectory t
JOIN rollouts_rollout r ON r.id = t.rollout_id JOIN rollouts_group g ON g.id = r.group_id
LEFT JOIN buffer_sample s ON s.trajectory_id = t.attempt_id
WHERE t.run_id = %s
"""


def recorded_tokens(run: Run) -> int:
    """Sampled tokens of recorded attempts: what a policy wrote. Reference traces are scripts."""
    return sum(_recorded_tokens(run).values())


def _recorded_tokens(run: Run) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(_TOKENS, [run.pk])
        evaluation, entered, entering = cursor.fetchone()
    return {"evaluation": int(evaluation), "entered": int(entered), "entering": int(entering)}


def _left_outside(run: Run) -> int:
    """Attempts that no pass has let in: after the end there is no other pass, and one is never late by so much."""
    until = timezone.now() - (timedelta(0) if run.ended else ENTERS_WITHIN)
    recorded = Trajectory.objects.of(run).filter(rollout__group__purpose="train", recorded_at__lt=until)
    return recorded.filter(sample__isnull=True).count()


def _sample_tokens(run: Run) -> dict[tuple[str, str], int]:
    rows = Sample.objects.of(run).values_list("state", "reason").annotate(n=Sum("tokens"))
    return {(state, reason): int(n) for state, reason, n in rows}


def _problems(run: Run, found: Ledger) -> list[str]:
    problems = []
    parts = found.active + found.recorded + found.lost + found.cancelled
    if found.claimed != parts:
        problems.append(f"attempts: {found.claimed} claimed, {parts} accounted for")
    recorded = Trajectory.objects.of(run).count()
    if recorded != found.recorded:
        problems.append(f"attempts: {found.recorded} recorded, {recorded} trajectories")
    where = (
        found.evaluation_tokens
        + found.buffered_tokens
        + found.handed_tokens
        + found.trained_tokens
        + sum(found.discarded_tokens.values())
    )
    if where != found.recorded_tokens:
        problems.append(f"sampled tokens: {found.recorded_tokens} recorded, {where} accounted for")
    used = found.handed_tokens + found.trained_tokens
    batches = Batch.objects.filter(run=run, kind="grpo").exclude(state=states.RETURNED)
    in_batches = batches.aggregate(n=Sum("tokens"))["n"] or 0
    if used != in_batches:
        problems.append(f"sampled tokens: {used} in samples of batches, {in_batches} in the batches")
    return problems
