"""Recorded rounds become sequences to learn from: exactly the ids of the record, in order, nothing made from text."""

from collections.abc import Iterable, Sequence

from apps.rewards.models import Reward
from apps.rollouts.models import Group
from apps.trajectories.models import Trajectory
from learner.messages import Sample, SampleGroup
from sandbox_worker.messages import Round
from wire.store import Store


def sequences(trajectory_id: int, rounds: Sequence[Round]) -> list[Sample]:
    """The samples of one trajectory: one, unless a template broke the prefix and a round started anew."""
    made: list[Sample] = []
    part: list[Round] = []
    for found in rounds:
        if found.split and part:
            made.append(_sequence(trajectory_id, part))
            part = []
        part.append(found)
    if part:
        made.append(_sequence(trajectory_id, part))
    return [sample for sample in made if any(sample.trainable)]


def _sequence(trajectory_id: int, rounds: Sequence[Round]) -> Sample:
    ids: list[int] = []
    trainable: list[bool] = []
    logprobs: list[float] = []
    for found in rounds:
        ids += [*found.prompt_ids, *found.sampled_ids]
        trainable += [False] * len(found.prompt_ids) + [True] * len(found.sampled_ids)
        logprobs += found.logprobs
    versions = [found.policy_version for found in rounds if found.policy_version is not None]
    return Sample(
        trajectory_id=trajectory_id,
        ids=tuple(ids),
        trainable=tuple(trainable),
        logprobs=tuple(logprobs),
        oldest_version=min(versions, default=0),
    )


def group_of_samples(group: Group, formula: str, store: Store) -> SampleGroup:
    """A whole group with its rewards under a formula."""
    trajectories = list(
        Trajectory.objects.with_verdict().filter(rollout__group=group).select_related("segment").order_by("pk")
    )
    values = dict(
        Reward.objects.filter(trajectory__in=trajectories, formula=formula).values_list("trajectory_id", "value")
    )
    samples = [sample for found in trajectories for sample in sequences(found.pk, found.load(store).rounds)]
    return SampleGroup(
        group_id=group.pk,
        family=group.task_version.task.family,
        samples=tuple(samples),
        sample_rewards=tuple(values[sample.trajectory_id] for sample in samples),
        trajectory_ids=tuple(found.pk for found in trajectories),
        rewards=tuple(values[found.pk] for found in trajectories),
    )


def trace_groups(trajectory_ids: Iterable[int], store: Store) -> list[SampleGroup]:
    """SFT traces, each a group of its own."""
    wanted = list(trajectory_ids)
    found = Trajectory.objects.select_related("rollout__group__task_version__task").in_bulk(wanted)
    groups = []
    for trajectory in (found[pk] for pk in wanted):
        samples = sequences(trajectory.pk, trajectory.load(store).rounds)
        groups.append(
            SampleGroup(
                group_id=trajectory.rollout.group_id,
                family=trajectory.rollout.group.task_version.task.family,
                samples=tuple(samples),
                sample_rewards=(1.0,) * len(samples),
                trajectory_ids=(trajectory.pk,),
                rewards=(1.0,),
            )
        )
    return groups
