"""Keep the last three, the best, what evaluations wait for, and the last resume point; retire the rest."""

from collections.abc import Iterable

from apps.checkpoints import states
from apps.checkpoints.models import Checkpoint
from apps.runs.models import Run
from apps.training.hand_over import held_steps
from apps.training.models import LearnerStep, live_versions
from wire.store import Store

KEEP_LAST = 3


def retain_checkpoints(run: Run, store: Store, *, pinned: Iterable[int], best: int | None, resume: int) -> int:
    """Delete the files of what nobody needs; the number retired.

    pinned: versions that evaluations or rollouts in flight need. resume: where training would go on after a crash."""
    stored = list(Checkpoint.objects.of(run).stored().order_by("-version"))
    live = live_versions(run)
    newest = [checkpoint.version for checkpoint in stored if checkpoint.version in live][:KEEP_LAST]
    keep = {0, run.policy_version, resume, *newest, *pinned} | ({best} if best is not None else set())
    # A step that had nothing to learn made a version with its parent's files: they go with the last that has them.
    kept_files = {checkpoint.prefix for checkpoint in stored if checkpoint.version in keep}
    resume_files = {checkpoint.prefix for checkpoint in stored if checkpoint.version == resume}
    retired = 0
    for checkpoint in stored:
        if checkpoint.version not in keep:
            retired += int(_retire(checkpoint, store, kept_files))
        elif checkpoint.resumable and checkpoint.prefix not in resume_files:
            _drop_optimizer_state(checkpoint, store)
    return retired


def sweep_leftovers(run: Run, store: Store) -> int:
    """Delete the data of batches that are used up, and what learners wrote of steps, or sendings of steps, that did not
    count; the number of places looked at. What a learner still holds waits."""
    tidy = LearnerStep.objects.of(run).exclude(state="handed").filter(swept=False)
    held = held_steps() if tidy.exists() else set()
    steps = list(tidy.exclude(pk__in=held).select_related("batch"))
    places = [place for step in steps for place in (*step.left_prefixes(), step.batch.key) if place]
    for place in places:
        store.delete(place)
    tidy.filter(pk__in=[step.pk for step in steps]).update(swept=True)
    return len(places)


def _retire(checkpoint: Checkpoint, store: Store, kept_files: set[str]) -> bool:
    if not checkpoint.move(states.RETIRED):
        return False
    if checkpoint.prefix not in kept_files:
        store.delete(checkpoint.prefix)
    return True


def _drop_optimizer_state(checkpoint: Checkpoint, store: Store) -> None:
    """Only the last resume point needs it, and it is most of the bytes."""
    store.delete(f"{checkpoint.prefix}/trainer")
    checkpoint.forget_resume(store.size(checkpoint.prefix))
