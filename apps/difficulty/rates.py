"""Success counts by task over the newest training tries: what the curriculum weighs by.

Infra failures are not tries.
"""

from dataclasses import dataclass

from django.db.models import Count, Q

from apps.rollouts.models import Group
from apps.runs.models import Run

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
    verdict = Q(rollouts__trajectories__counts=True)
    recent = Q(rollouts__policy_version__gte=run.policy_version - RECENT_VERSIONS)
    rows = (
        Group.objects.of(run)
        .filter(purpose="train")
        .values("task_version_id")
        .annotate(
            tries=Count("rollouts__trajectories", filter=verdict & recent),
            solved=Count(
                "rollouts__trajectories",
                filter=verdict & recent & Q(rollouts__trajectories__grade__verdict="solved"),
            ),
        )
    )
    return {
        row["task_version_id"]: TaskRate(row["task_version_id"], row["solved"], row["tries"])
        for row in rows
        if row["tries"]
    }
