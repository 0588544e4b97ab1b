"""Keep the last three, the best, what evaluations wait for, and the last resume point; retire the rest."""

from collections.abc import Iterable

from apps.checkpoints import states
from apps.checkpoints.models import Checkpoint
from apps.runs.models import Run
from apps.training.models import live_versions
from wire.store import Store

KEEP_LAST = 3


def retain_checkpoints(run: Run, store: Store, *, pinned: Iterable[int], best: int | None, resume: int) -> int:
    """Delete the files of what nobody needs; the number retired.

    pinned: versions that evaluations or rollouts in flight need. resume: where training would go on after a crash."""
    stored = list(Checkpoint.objects.of(run).stored().exclude(version=0).order_by("-version"))
    live = live_versions(run)
    newest = [checkpoint.version for checkpoint in stored if checkpoint.version in live][:KEEP_LAST]
    keep = {run.policy_version, resume, *newest, *pinned} | ({best} if best is not None else set())
    retired = 0
    for checkpoint in stored:
        if checkpoint.version not in keep and checkpoint.state != states.PUBLISHING:
            if checkpoint.move(states.RETIRED):
                store.delete(checkpoint.prefix)
                retired += 1
        elif checkpoint.resumable and checkpoint.version != resume:
            _drop_optimizer_state(checkpoint, store)
    return retired


def _drop_optimizer_state(checkpoint: Checkpoint, store: Store) -> None:
    """Only the last resume point needs it, and it is most of the bytes."""
    for name in ("trainer.safetensors", "trainer.json"):
        store.delete(f"{checkpoint.prefix}/{name}")
    checkpoint.forget_resume(store.size(checkpoint.prefix))
