"""What one optimiser step learns from a batch: which samples, with which advantage and weight each of their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from learner.advantages import grpo_advantages, is_flat
from learner.errors import LearnerError
from learner.losses.grpo import sequence_weights
from learner.losses.sft import token_weight
from learner.messages import Sample, SampleGroup, StepKind


class BatchError(LearnerError):
    """The batch contradicts itself."""


@dataclass(frozen=True)
class Lesson:
    """One sample with what its tokens share."""

    sample: Sample
    advantage: float
    weight: float
    """Of each trainable token in the objective."""


@dataclass(frozen=True)
class Plan:
    groups: tuple[tuple[Lesson, ...], ...]
    """Only what is learned from, by group."""
    flat_groups: int
    single_groups: int

    @property
    def lessons(self) -> list[Lesson]:
        return [lesson for group in self.groups for lesson in group]


def plan_step(kind: StepKind, groups: Sequence[SampleGroup], advantage_eps: float) -> Plan:
    """Raises BatchError, UnscoredError."""
    return _plan_sft(groups) if kind == "sft" else _plan_grpo(groups, advantage_eps)


def _plan_sft(groups: Sequence[SampleGroup]) -> Plan:
    weight = token_weight(sum(sum(sample.trainable) for group in groups for sample in group.samples))
    planned = (tuple(Lesson(sample, 1.0, weight) for sample in group.samples) for group in groups)
    return Plan(tuple(planned), flat_groups=0, single_groups=0)


def _plan_grpo(groups: Sequence[SampleGroup], eps: float) -> Plan:
    for group in groups:
        _check_group(group)
    single = sum(len(group.rewards) == 1 for group in groups)
    flat = sum(is_flat(group.rewards) for group in groups) - single
    live = [group for group in groups if not is_flat(group.rewards)]
    weights = sequence_weights([_lengths(group) for group in live])
    planned = (_lessons(group, weights_g, eps) for group, weights_g in zip(live, weights, strict=True))
    return Plan(tuple(planned), flat_groups=flat, single_groups=single)


def _lengths(group: SampleGroup) -> list[int]:
    """Trainable tokens of each trajectory, whole even if it was split into several samples."""
    length = dict.fromkeys(group.trajectory_ids, 0)
    for sample in group.samples:
        length[sample.trajectory_id] += sum(sample.trainable)
    return list(length.values())


def _lessons(group: SampleGroup, weights: Sequence[float], eps: float) -> tuple[Lesson, ...]:
    advantage = dict(zip(group.trajectory_ids, grpo_advantages(group.rewards, eps), strict=True))
    weight = dict(zip(group.trajectory_ids, weights, strict=True))
    return tuple(
        Lesson(sample, advantage[sample.trajectory_id], weight[sample.trajectory_id]) for sample in group.samples
    )


def _check_group(group: SampleGroup) -> None:
    where = f"group {group.group_id}"
    if len(group.trajectory_ids) != len(group.rewards) or not group.rewards:
        raise BatchError(f"{where}: {len(group.trajectory_ids)} trajectories but {len(group.rewards)} rewards")
    if len(set(group.trajectory_ids)) != len(group.trajectory_ids):
        raise BatchError(f"{where}: a trajectory stands in it twice")
    unknown = {sample.trajectory_id for sample in group.samples} - set(group.trajectory_ids)
    if unknown:
        raise BatchError(f"{where}: samples of trajectories {sorted(unknown)} that are not in it")
    if any(len(sample.logprobs) != sum(sample.trainable) for sample in group.samples):
        raise BatchError(f"{where}: a trainable id has no log-probability of its sampler")
