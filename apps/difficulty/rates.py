"""Success counts by task over the newest training tries: what the curriculum weighs by.

Infra failures are not tries.
"""

from dataclasses import dataclass

from django.db.models import F, FloatField, Q, Sum, Value
from django.db.models.functions import Cast, Power

from apps.runs.models import Run
from apps.trajectories.models import Trajectory

HALF_LIFE = 4
"""Versions after which a try counts half: what is solved by now is soon known to be."""
RECENT_VERSIONS = 30
"""Older tries count for nothing."""


@dataclass(frozen=True)
class TaskRate:
    """Recent training tries of one task, each weighed by its age."""

    task_version_id: int
    solved: float
    tries: float


def recent_rates(run: Run) -> dict[int, TaskRate]:
    """By task version; tasks without a recent try are absent."""
    age = Cast(run.policy_version - F("rollout__policy_version"), FloatField())
    counted = Power(Value(0.5), age / Value(float(HALF_LIFE)))
    rows = (
        Trajectory.objects.of(run)
        .with_verdict()
        .filter(rollout__group__purpose="train", rollout__policy_version__gte=run.policy_version - RECENT_VERSIONS)
        .values(task_version_id=F("rollout__group__task_version"))
        .annotate(tries=Sum(counted), solved=Sum(counted, filter=Q(grade__verdict="solved"), default=0.0))
    )
    return {row["task_version_id"]: TaskRate(row["task_version_id"], row["solved"], row["tries"]) for row in rows}
