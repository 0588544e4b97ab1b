"""Make groups of planned rollouts."""

from collections.abc import Iterable

from django.db import transaction

from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.tasks.models import TaskVersion


def plan_groups(
    run: Run,
    tasks: Iterable[TaskVersion],
    *,
    purpose: str,
    size: int,
    suite: str = "",
    pinned_version: int | None = None,
    script: str = "",
) -> list[Group]:
    """One group of size tries for each task, in two statements."""
    with transaction.atomic():
        groups = Group.objects.bulk_create(
            Group(
                run=run,
                task_version=task,
                purpose=purpose,
                suite=suite,
                pinned_version=pinned_version,
                script=script,
                size=size,
            )
            for task in tasks
        )
        Rollout.objects.bulk_create(
            Rollout(run=run, group=group, index=index) for group in groups for index in range(size)
        )
    return groups


def refill(group: Group) -> None:
    """One more try in a group that lost one for good."""
    last = group.rollouts.order_by("-index").values_list("index", flat=True).first()
    Rollout.objects.create(run_id=group.run_id, group=group, index=(last or 0) + 1)
    group.refills += 1
    group.save(update_fields=["refills"])
