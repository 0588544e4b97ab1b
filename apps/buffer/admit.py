"""Whole groups in, the rest out, each with its reason."""

from django.db import connection
from django.db.models import Count, Q

from apps.buffer import states
from apps.buffer.models import Sample
from apps.rollouts import states as rollout_states
from apps.rollouts.models import Group
from apps.rollouts.plan import refill
from apps.runs.models import Run
from apps.trajectories.models import Trajectory

MOST_REFILLS = 2

# Every recorded attempt of a training try enters once: with a verdict it waits, an infra failure is out at once, and
# so is what was recorded while its group was being dropped. Without a round, a try is as old as its claim.
_ENTER = """
INSERT INTO buffer_sample (trajectory_id, run_id, group_id, state, reason, tokens, oldest_version)
SELECT t.attempt_id, t.run_id, r.group_id,
       CASE WHEN t.counts AND g.state <> 'dropped' THEN 'buffered' ELSE 'discarded' END,
       CASE WHEN NOT t.counts THEN 'infra' WHEN g.state = 'dropped' THEN g.dropped_reason ELSE '' END,
       t.sampled_tokens, coalesce(t.oldest_version, a.policy_version)
FROM trajectories_trajectory t
JOIN rollouts_attempt a ON a.id = t.attempt_id
JOIN rollouts_rollout r ON r.id = t.rollout_id
JOIN rollouts_group g ON g.id = r.group_id AND g.purpose = 'train'
LEFT JOIN buffer_sample s ON s.trajectory_id = t.attempt_id
WHERE t.run_id = %s AND s.trajectory_id IS NULL
ON CONFLICT DO NOTHING
"""


def admit_groups(run: Run, *, live_versions: set[int]) -> int:
    """Take what became whole; the number of groups admitted.

    live_versions: those of the run's live branch; tries of any other are out."""
    # The groups first: what is recorded between the two looks has entered before its group is admitted.
    finished = _finished_groups(run)
    enter_samples(run)
    off_branch = _off_branch(finished, live_versions)
    admitted = 0
    for group in finished:
        if group.pk in off_branch:
            discard_group(group, states.REWOUND)
        elif group.recorded < group.size:  # type: ignore[attr-defined]  # annotated below
            _mend(group, lost=group.size - group.recorded)  # type: ignore[attr-defined]
        elif group.rewarded == group.size:  # type: ignore[attr-defined]
            admitted += int(group.move(rollout_states.COMPLETE) and group.move(rollout_states.GROUP_ADMITTED))
    return admitted


def enter_samples(run: Run) -> None:
    """Each recorded attempt of a training try gets its sample, once."""
    with connection.cursor() as cursor:
        cursor.execute(_ENTER, [run.pk])


def still_to_enter(run: Run) -> bool:
    """A recorded attempt of a training try has no sample yet."""
    recorded = Trajectory.objects.of(run).filter(rollout__group__purpose="train")
    return recorded.filter(sample__isnull=True).exists()


def discard_group(group: Group, reason: str) -> None:
    """Out with the group and with all of it that still waits."""
    if group.drop(reason):
        Sample.objects.filter(group=group).buffered().discard(reason)


def _finished_groups(run: Run) -> list[Group]:
    """Open training groups with no try left to wait for."""
    recorded = Q(rollouts__state=rollout_states.RECORDED)
    rewarded = Q(rollouts__trajectories__rewards__formula=run.formula)
    rows = Group.objects.of(run).filter(purpose="train", state=rollout_states.OPEN)
    counted = rows.annotate(
        recorded=Count("rollouts", filter=recorded, distinct=True),
        rewarded=Count("rollouts__trajectories__rewards", filter=rewarded, distinct=True),
        waiting=Count("rollouts", filter=~Q(rollouts__state__in=rollout_states.DONE), distinct=True),
    )
    return list(counted.filter(waiting=0).order_by("id"))


def _off_branch(groups: list[Group], live_versions: set[int]) -> set[int]:
    """Of these groups, those with a try of a version that was rewound."""
    samples = Sample.objects.filter(group__in=groups).buffered()
    return set(samples.exclude(oldest_version__in=live_versions).values_list("group_id", flat=True))


def _mend(group: Group, *, lost: int) -> None:
    """A lost sibling is refilled alone; a group that loses too many is dropped whole."""
    if group.refills + lost > MOST_REFILLS:
        discard_group(group, states.INCOMPLETE)
        return
    for _ in range(lost):
        refill(group)
