"""Which learner step comes next, and when there are no more."""

from datetime import datetime

from django.db.models import Q, Sum

from apps.buffer import states as buffer_states
from apps.buffer.admit import discard_group
from apps.buffer.cut import batch_open, cut_batch, cut_traces, flat_since_batch, solved_traces
from apps.buffer.models import Batch, Sample
from apps.evaluation.models import Evaluation
from apps.lifecycle.models import Transition
from apps.pipeline.idle import Span, covered
from apps.rollouts import states as rollout_states
from apps.rollouts.models import Group, Rollout
from apps.runs import states as run_states
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.training.hand_over import hand_over, resend_unheld
from apps.training.lease import has_learner
from apps.training.models import LearnerStep, live_steps, live_versions
from apps.trajectories.store import object_store
from wire.store import FolderStore, Store

NO_ROOM = ("No space left", "Disk quota exceeded")
"""What the system says of a full disk."""
FLAT_BATCHES = 4
"""Groups for so many batches, all flat: more of them will hardly be better."""


def feed_learner(run: Run, config: RunConfig, store: Store, *, now: datetime) -> None:
    """Hand the next batch over, if there is one and nothing stands in the way."""
    resend_unheld(run, config, store, now=now)
    if not run.dispatching or run.training_ended or batch_open(run) or not has_learner(run):
        return
    batch = _next_batch(run, config, store)
    if batch is not None:
        hand_over(run, batch, now=now)


def _next_batch(run: Run, config: RunConfig, store: Store) -> Batch | None:
    sft = live_steps(run, "sft")
    if sft < config.sft_steps:
        return cut_traces(run, config, store, step=sft) if traces_ready(run) else None
    if warm_evaluation_pending(run, config):
        return None
    return cut_batch(run, config, store, live_versions=live_versions(run))


def no_warm_start(run: Run, config: RunConfig) -> str:
    """Why the warm start cannot begin; empty while it may."""
    if live_steps(run, "sft") >= config.sft_steps or not traces_ready(run) or solved_traces(run).exists():
        return ""
    return (
        "No reference trace passed its task's tests: there is nothing to warm up on. "
        "See the reference tries of this run; mend what they show, and start another one."
    )


def traces_ready(run: Run) -> bool:
    """Every reference trace has been executed."""
    traces = Rollout.objects.of(run).filter(group__purpose="reference")
    return traces.exists() and not traces.exclude(state__in=rollout_states.DONE).exists()


def warm_evaluation_pending(run: Run, config: RunConfig) -> bool:
    """GRPO begins from a measured start: until then two phases would share one clock."""
    start = [evaluation.state for evaluation in Evaluation.objects.of(run).filter(version=run.policy_version)]
    if live_steps(run, "grpo"):
        return False
    return not start or any(state in ("planned", "running") for state in start)


def step_trouble(run: Run) -> str:
    """What keeps the handed step from its end; empty while nothing does."""
    step = LearnerStep.objects.of(run).handed().exclude(error="").first()
    if step is None:
        return ""
    return f"{step.error.rstrip('.')}. {_mend_store(step.error)}; it tries again by itself."


def _mend_store(error: str) -> str:
    store = object_store()
    place = f"the store ({store.root})" if isinstance(store, FolderStore) else "the store"
    return f"Make room on the disk of {place}" if any(words in error for words in NO_ROOM) else f"Look after {place}"


def all_flat(run: Run, config: RunConfig) -> str:
    """Why no step is made though groups are graded; empty while there is something to learn from."""
    if run.kind != "training" or not run.dispatching or run.training_ended:
        return ""
    flat = flat_since_batch(run)
    if flat < FLAT_BATCHES * config.groups_per_step:
        return ""
    warm = "" if config.sft_steps else "a warm start, "
    return (
        f"The last {flat} groups were all flat: the tries of a task got the same reward each time, which teaches "
        f"nothing, so no step is made. Try {warm}easier tasks (harder ones, if all are solved) or larger groups."
    )


def settle_training(run: Run, config: RunConfig, *, now: datetime) -> None:
    """Close the training when its steps or a budget are used up, and put away what no batch will use."""
    if run.training_ended:
        _put_away(run, now)
        return
    reason = ended_by(run, config, now=now)
    if reason and not batch_open(run):
        run.end_training(reason)
        _put_away(run, now)


def ended_by(run: Run, config: RunConfig, *, now: datetime) -> str:
    """Why no more steps are made; empty while they are."""
    if run.kind == "evaluation":
        return "evaluation only"
    grpo = live_steps(run, "grpo")
    if live_steps(run, "sft") >= config.sft_steps and grpo >= config.grpo_steps:
        return f"all {config.sft_steps} SFT and {config.grpo_steps} GRPO steps are done"
    if config.max_seconds is not None and grpo_seconds(run, now) >= config.max_seconds:
        return f"the budget of {config.max_seconds} s of GRPO is used after {grpo} steps"
    if config.max_sampled_tokens is not None:
        sampled = Sample.objects.of(run).aggregate(n=Sum("tokens"))["n"] or 0
        if sampled >= config.max_sampled_tokens:
            return f"the budget of {config.max_sampled_tokens} sampled tokens is used after {grpo} steps"
    return ""


def grpo_seconds(run: Run, now: datetime) -> float:
    """Wall time since the first training try was claimed, without what the run was paused of it."""
    first = _grpo_began(run)
    if first is None:
        return 0.0
    paused = covered(_pauses(run, now), (first.timestamp(), now.timestamp()))
    return float((now - first).total_seconds()) - paused


def _grpo_began(run: Run) -> datetime | None:
    tries = Rollout.objects.of(run).filter(group__purpose="train", claimed_at__isnull=False)
    return tries.order_by("claimed_at").values_list("claimed_at", flat=True).first()


def _pauses(run: Run, now: datetime) -> list[Span]:
    """When it was paused; the last one may not have ended."""
    moves = Transition.objects.filter(subject=Run.SUBJECT, subject_id=run.pk).order_by("id")
    turns = moves.filter(Q(before=run_states.PAUSED) | Q(after=run_states.PAUSED)).values_list("after", "at")
    spans, since = [], None
    for after, at in turns:
        if after == run_states.PAUSED:
            since = at
        elif since is not None:
            spans.append((since.timestamp(), at.timestamp()))
            since = None
    return spans if since is None else [*spans, (since.timestamp(), now.timestamp())]


def train_seconds(run: Run) -> float | None:
    """Wall time of GRPO: from the first claim to the end of the last live step, or of a training that made none.

    None where no try was claimed, or the end is still to come.
    """
    last = LearnerStep.objects.of(run).live().filter(kind="grpo").order_by("-finished_at").first()
    end = run.training_ended_at if last is None else last.finished_at
    return None if end is None or _grpo_began(run) is None else grpo_seconds(run, end)


def _put_away(run: Run, now: datetime) -> None:
    """Training has ended: planned tries are cancelled, what waits is discarded."""
    tries = Rollout.objects.of(run).filter(group__purpose="train", state=rollout_states.PLANNED)
    Rollout.move_many(
        tries.values_list("pk", flat=True), [rollout_states.PLANNED], rollout_states.CANCELLED, finished_at=now
    )
    open_groups = Group.objects.of(run).filter(
        purpose="train", state__in=[rollout_states.OPEN, rollout_states.GROUP_ADMITTED]
    )
    for group in open_groups.exclude(rollouts__state__in=rollout_states.IN_FLIGHT):
        discard_group(group, buffer_states.CUT_SHORT)
