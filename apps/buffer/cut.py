"""Cut a batch: enough groups, fresh enough, oldest first. Flat groups are met on the way and left out, counted."""

import random
from collections.abc import Sequence

import msgspec
from django.db import transaction
from django.db.models import Max, Min, Sum

from apps.buffer import states
from apps.buffer.admit import discard_group
from apps.buffer.models import Batch, Sample
from apps.buffer.samples import group_of_samples, trace_groups
from apps.buffer.staleness import branch_lag
from apps.rewards.models import Reward
from apps.rollouts import states as rollout_states
from apps.rollouts.models import Group
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.trajectories.models import Trajectory, TrajectoryQuerySet
from learner.messages import BatchData, SampleGroup
from wire.store import Store


def batch_open(run: Run) -> bool:
    """True while a step is being made."""
    return run.batches.filter(state__in=[states.CUT, states.BATCH_HANDED]).exists()


def cut_batch(run: Run, config: RunConfig, store: Store, *, live_versions: set[int]) -> Batch | None:
    """The next GRPO batch, or None while there is not enough to learn from."""
    waiting = Group.objects.of(run).filter(purpose="train", state=rollout_states.GROUP_ADMITTED)
    with transaction.atomic():
        fresh = _keep_fresh(list(waiting.order_by("id")), live_versions, config.max_staleness)
        if len(fresh) < config.groups_per_step:
            return None
        chosen = fresh[: config.groups_per_step]
        flat = _flat(chosen, run.formula)
        for group in chosen:
            if group.pk in flat:
                discard_group(group, states.FLAT)
        taught = [group for group in chosen if group.pk not in flat]
        return _hold(run, taught, live_versions=live_versions, store=store) if taught else None


def flat_since_batch(run: Run) -> int:
    """Flat groups that no batch has counted yet: those met since the last one was cut."""
    dropped = Group.objects.of(run).filter(purpose="train", state=rollout_states.DROPPED)
    return dropped.filter(dropped_reason=states.FLAT).count() - (run.batches.aggregate(n=Sum("flat_groups"))["n"] or 0)


def cut_traces(run: Run, config: RunConfig, store: Store, *, step: int) -> Batch | None:
    """The batch of traces for SFT step number step (from 0), shuffled by the run's seed.

    In an epoch every trace comes once for each of its rounds: two rounds are twice as much to learn.
    """
    known = solved_traces(run).order_by("rollout_id").values_list("pk", "rounds")
    traces = [trace for trace, rounds in known for _ in range(rounds)]
    if not traces:
        return None
    chosen = _epoch_slice(traces, step * config.sft_batch, config.sft_batch, seed=config.seed)
    data = BatchData(groups=tuple(trace_groups(chosen, store)))
    with transaction.atomic():
        batch = Batch.objects.create(
            run=run,
            kind="sft",
            base_version=run.policy_version,
            groups=len(data.groups),
            sequences=sum(len(group.samples) for group in data.groups),
            tokens=_trainable(data.groups),
        )
        _put(batch, data, store)
    return batch


def solved_traces(run: Run) -> TrajectoryQuerySet:
    """Reference traces that passed."""
    return (
        Trajectory.objects.of(run).with_verdict().filter(rollout__group__purpose="reference", grade__verdict="solved")
    )


def _keep_fresh(groups: Sequence[Group], live_versions: set[int], bound: int) -> list[Group]:
    """Discard those with a sample that is too many steps old."""
    samples = Sample.objects.filter(group__in=groups).buffered().order_by()
    oldest = dict(samples.values_list("group_id").annotate(oldest=Min("oldest_version")))
    stale = {group for group, version in oldest.items() if branch_lag(version, live_versions) > bound}
    for group in groups:
        if group.pk in stale:
            discard_group(group, states.STALE)
    return [group for group in groups if group.pk not in stale]


def _flat(groups: Sequence[Group], formula: str) -> set[int]:
    """Those whose rewards are all equal."""
    rewards = Reward.objects.filter(formula=formula, trajectory__sample__group__in=groups).order_by()
    ranges = rewards.values("trajectory__sample__group").annotate(least=Min("value"), most=Max("value"))
    return {row["trajectory__sample__group"] for row in ranges if row["least"] == row["most"]}


def _hold(run: Run, groups: Sequence[Group], *, live_versions: set[int], store: Store) -> Batch:
    """Take these groups out of the buffer, into a batch."""
    data = BatchData(groups=tuple(group_of_samples(group, run.formula, store) for group in groups))
    rows = list(Sample.objects.filter(group__in=groups).buffered())
    for row in rows:
        row.staleness = branch_lag(row.oldest_version or 0, live_versions)
    lags = [row.staleness or 0 for row in rows]
    batch = Batch.objects.create(
        run=run,
        kind="grpo",
        base_version=run.policy_version,
        groups=len(groups),
        flat_groups=flat_since_batch(run),
        sequences=len(lags),
        tokens=sum(row.tokens for row in rows),
        max_staleness=max(lags),
        mean_staleness=sum(lags) / len(lags),
    )
    for row in rows:
        row.state, row.batch = states.HANDED, batch
    Sample.objects.bulk_update(rows, ["state", "batch", "staleness"])
    Group.move_many([group.pk for group in groups], [rollout_states.GROUP_ADMITTED], rollout_states.CONSUMED)
    _put(batch, data, store)
    return batch


def _put(batch: Batch, data: BatchData, store: Store) -> None:
    key = f"batches/{batch.run_id}/{batch.pk}.json"
    store.put(key, msgspec.json.encode(data))
    batch.keep(key)


def _trainable(groups: Sequence[SampleGroup]) -> int:
    return sum(sum(sample.trainable) for group in groups for sample in group.samples)


def _epoch_slice(traces: Sequence[int], start: int, count: int, *, seed: int) -> list[int]:
    chosen: list[int] = []
    while len(chosen) < min(count, len(traces)):
        epoch, position = divmod(start + len(chosen), len(traces))
        order = list(traces)
        random.Random(f"{seed}:{epoch}").shuffle(order)
        chosen.append(order[position])
    return chosen
