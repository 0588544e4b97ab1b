"""Success counts by task over the newest training tries: what the curriculum weighs by.

Infra failures are not tries.
"""

from dataclasses import dataclass

from django.db.models import Case, F, Q, Sum, Value, When

from apps.buffer.staleness import branch_lag
from apps.runs.models import Run
from apps.training.models import live_versions
from apps.trajectories.models import Trajectory

HALF_LIFE = 4
"""Steps after which a try counts half: what is solved by now is soon known to be."""
RECENT_STEPS = 30
"""Older tries count for nothing."""


@dataclass(frozen=True)
class TaskRate:
    """Recent training tries of one task, each weighed by its age."""

    task_version_id: int
    solved: float
    tries: float


def recent_rates(run: Run) -> dict[int, TaskRate]:
    """By task version; tasks without a recent try of the live branch are absent."""
    newest = sorted(live_versions(run))[-RECENT_STEPS - 1 :]
    shares = {version: 0.5 ** (branch_lag(version, newest) / HALF_LIFE) for version in newest}
    counted = Case(*(When(rollout__policy_version=version, then=Value(share)) for version, share in shares.items()))
    rows = (
        Trajectory.objects.of(run)
        .with_verdict()
        .filter(rollout__group__purpose="train", rollout__policy_version__in=newest)
        .values(task_version_id=F("rollout__group__task_version"))
        .annotate(tries=Sum(counted), solved=Sum(counted, filter=Q(grade__verdict="solved"), default=0.0))
    )
    return {row["task_version_id"]: TaskRate(row["task_version_id"], row["solved"], row["tries"]) for row in rows}
