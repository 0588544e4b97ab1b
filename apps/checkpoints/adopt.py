"""What learner steps made becomes checkpoints; version 0 is the policy itself."""

from apps.checkpoints.models import Checkpoint
from apps.runs.models import Run
from apps.training.models import LearnerStep


def adopt_checkpoints(run: Run) -> int:
    """A checkpoint row for each version that has none; the number made."""
    if run.policy is None:
        return 0
    known = set(Checkpoint.objects.of(run).values_list("version", flat=True))
    rows = [_of_step(run, step) for step in LearnerStep.objects.of(run).made() if step.version not in known]
    if 0 not in known:
        policy = run.policy
        rows.append(Checkpoint(run=run, version=0, kind="base", prefix=policy.prefix, digest=policy.digest))
    Checkpoint.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _of_step(run: Run, step: LearnerStep) -> Checkpoint:
    return Checkpoint(
        run=run,
        version=step.version,
        parent=step.parent_version,
        kind=step.kind,
        prefix=step.prefix,
        digest=step.digest,
        size_bytes=step.size_bytes,
        resumable=step.resumable,
    )
