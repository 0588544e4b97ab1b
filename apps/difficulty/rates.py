"""Success counts by task over the newest training tries: what the curriculum weighs by.

Infra failures are not tries.
"""

from dataclasses import dataclass

from django.db.models import Count, F, Q

from apps.runs.models import Run
from apps.trajectories.models import Trajectory

RECENT_VERSIONS = 20
"""Older tries say little of the policy as it is now."""


@dataclass(frozen=True)
class TaskRate:
    """Recent training tries of one task."""

    task_version_id: int
    solved: int
    tries: int


def recent_rates(run: Run) -> dict[int, TaskRate]:
    """By task version; tasks without a recent try are absent."""
    rows = (
        Trajectory.objects.of(run)
        .with_verdict()
        .filter(rollout__group__purpose="train", rollout__policy_version__gte=run.policy_version - RECENT_VERSIONS)
        .values(task_version_id=F("rollout__group__task_version"))
        .annotate(tries=Count("pk"), solved=Count("pk", filter=Q(grade__verdict="solved")))
    )
    return {row["task_version_id"]: TaskRate(row["task_version_id"], row["solved"], row["tries"]) for row in rows}
