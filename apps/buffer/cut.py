"""Cut a batch: enough groups, fresh enough, oldest first. Flat groups are met on the way and left out, counted."""

import random
from collections.abc import Sequence

import msgspec
from django.db import transaction

from apps.buffer import states
from apps.buffer.admit import discard_group
from apps.buffer.models import Batch, Sample
from apps.buffer.samples import group_of_samples, trace_groups
from apps.buffer.staleness import fresh_enough, version_lag
from apps.rewards.models import Reward
from apps.rollouts import states as rollout_states
from apps.rollouts.models import Group
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.trajectories.models import Trajectory
from learner.messages import BatchData, SampleGroup
from wire.store import Store


def batch_open(run: Run) -> bool:
    """True while a step is being made."""
    return run.batches.filter(state__in=[states.CUT, states.BATCH_HANDED]).exists()


def cut_batch(run: Run, config: RunConfig, store: Store) -> Batch | None:
    """The next GRPO batch, or None while there is not enough to learn from."""
    groups = list(Group.objects.of(run).filter(purpose="train", state=rollout_states.GROUP_ADMITTED).order_by("id"))
    fresh = [group for group in groups if _keep_fresh(group, run.policy_version, config.max_staleness)]
    if len(fresh) < config.groups_per_step:
        return None
    chosen = fresh[: config.groups_per_step]
    live = [group for group in chosen if not _is_flat(group, run.formula)]
    with transaction.atomic():
        for group in chosen:
            if group not in live:
                discard_group(group, states.FLAT)
        if not live:
            return None
        return _hold(run, live, flat=len(chosen) - len(live), store=store)


def cut_traces(run: Run, config: RunConfig, store: Store, *, step: int) -> Batch | None:
    """The batch of traces for SFT step number step (from 0): every trace once an epoch, shuffled by the run's seed."""
    traces = list(
        Trajectory.objects.of(run)
        .with_verdict()
        .filter(rollout__group__purpose="reference", grade__verdict="solved")
        .order_by("rollout_id")
        .values_list("pk", flat=True)
    )
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


def _keep_fresh(group: Group, version: int, bound: int) -> bool:
    oldest = min(Sample.objects.filter(group=group).buffered().values_list("oldest_version", flat=True))
    if fresh_enough(oldest, version, bound):
        return True
    discard_group(group, states.STALE)
    return False


def _is_flat(group: Group, formula: str) -> bool:
    values = Reward.objects.filter(trajectory__sample__group=group, formula=formula).values_list("value", flat=True)
    return len(set(values)) < 2


def _hold(run: Run, groups: Sequence[Group], *, flat: int, store: Store) -> Batch:
    """Take these groups out of the buffer, into a batch."""
    data = BatchData(groups=tuple(group_of_samples(group, run.formula, store) for group in groups))
    samples = Sample.objects.filter(group__in=groups).buffered()
    lags = [version_lag(oldest, run.policy_version) for oldest in samples.values_list("oldest_version", flat=True)]
    batch = Batch.objects.create(
        run=run,
        kind="grpo",
        base_version=run.policy_version,
        groups=len(groups),
        flat_groups=flat,
        sequences=len(lags),
        tokens=sum(samples.values_list("tokens", flat=True)),
        max_staleness=max(lags),
        mean_staleness=sum(lags) / len(lags),
    )
    for oldest in set(samples.values_list("oldest_version", flat=True)):
        lag = version_lag(oldest, run.policy_version)
        samples.filter(oldest_version=oldest).update(state=states.HANDED, batch=batch, staleness=lag)
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
