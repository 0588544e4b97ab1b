"""What happens to a step that failed, and how to go back to a version from which training can go on.

What was made after it stays, dimmed; its numbers are never used again.
"""

from datetime import datetime

from django.db import transaction

from apps.buffer import states as buffer_states
from apps.buffer.admit import discard_group
from apps.buffer.models import Batch, Sample
from apps.lifecycle.announce import announce
from apps.rollouts import states as rollout_states
from apps.rollouts.models import Group
from apps.runs.models import Run
from apps.training import states
from apps.training.models import LearnerStep, live_versions


def give_back(run: Run, step: LearnerStep, *, reason: str, now: datetime, to_resumable: bool = False) -> None:
    """The handed step failed: its batch goes out of use, and the next step takes another."""
    with transaction.atomic():
        if not step.move(states.FAILED, reason=reason):
            return
        step.keep_error(reason, now)
        step.batch.move(buffer_states.RETURNED, reason=reason)
        announce(run.stream(), "step.failed", reason, {"version": step.version})
        rewind(run, discard_batch=step.batch, reason=reason, to_resumable=to_resumable)


def rewind(run: Run, *, discard_batch: Batch, reason: str, to_resumable: bool) -> None:
    """Put a failed step's batch away and, if the optimiser state is lost, go back to the last resume point."""
    Sample.objects.filter(batch=discard_batch).exclude(state=buffer_states.DISCARDED).discard(buffer_states.REWOUND)
    if not to_resumable:
        return
    target = resume_point(run)
    undone = LearnerStep.objects.of(run).live().filter(version__gt=target)
    for step in undone.select_related("batch").order_by("version"):
        step.move(states.REWOUND, reason=reason)
        step.batch.move(buffer_states.RETURNED, reason=reason)
        Sample.objects.filter(batch=step.batch).discard(buffer_states.REWOUND)
    run.take_version(target)
    live = live_versions(run)
    waiting = Group.objects.of(run).filter(purpose="train", state=rollout_states.GROUP_ADMITTED)
    for group in waiting:
        versions = Sample.objects.filter(group=group).buffered().values_list("oldest_version", flat=True)
        if set(versions) - live:
            discard_group(group, buffer_states.REWOUND)
    announce(run.stream(), "run.rewound", f"Back to version {target}: {reason}", {"version": target})


def resume_point(run: Run) -> int:
    """The newest live version with its optimiser state written down, or that needs none: the start of a kind."""
    steps = list(LearnerStep.objects.of(run).live().order_by("version"))
    starts = [0, *(step.version for step in steps if step.resumable)]
    kinds = [step.kind for step in steps]
    # The last version of the warm start needs no optimiser state: GRPO begins with a new one.
    if "grpo" in kinds and "sft" in kinds:
        starts.append(steps[kinds.index("grpo") - 1].version)
    return max(starts)
