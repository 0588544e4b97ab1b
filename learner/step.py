"""One optimiser step on one batch: forward and backward pack by pack, then one update."""

import math
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from learner.batch import Lesson, Plan, plan_step
from learner.errors import LearnerError
from learner.losses.grpo import grpo_objective
from learner.losses.sft import sft_objective
from learner.messages import SampleGroup, StepKind, StepMetrics, StepSettings
from learner.metrics import TokenSums
from learner.network import Network
from learner.optimizer import MasterAdamW
from learner.pack import Pack, check_sample, pack_samples

_PACK_IDS = 320
"""Bounds memory: activations and attention of one pack."""
_HEAD_TOKENS = 128
"""Bounds memory: fp32 logits held at once."""


class NotFiniteLossError(LearnerError):
    """The loss is NaN or infinite; no weight was changed."""


@dataclass(frozen=True)
class Step:
    kind: StepKind
    groups: Sequence[SampleGroup]
    settings: StepSettings


def take_step(network: Network, optimizer: MasterAdamW, step: Step, keep_going: Callable[[], None]) -> StepMetrics:
    """keep_going is called between packs; what it raises ends the step, with the weights unchanged.

    A batch of flat groups only changes nothing.
    """
    began = time.monotonic()
    plan = plan_step(step.kind, step.groups, step.settings.advantage_eps)
    sums = TokenSums()
    norm = 0.0
    try:
        for pack in _packs(plan, network.vocab):
            keep_going()
            _learn(network, pack, plan.lessons, step, sums)
        if sums.tokens:
            keep_going()
            norm = optimizer.step(step.settings)
    finally:
        optimizer.drop_gradients()
    return _report(step, plan, sums, norm, time.monotonic() - began)


def _packs(plan: Plan, vocab: int) -> list[Pack]:
    samples = [lesson.sample for lesson in plan.lessons]
    for sample in samples:
        check_sample(sample, vocab)
    return pack_samples(samples, _PACK_IDS)


def _learn(network: Network, pack: Pack, lessons: Sequence[Lesson], step: Step, sums: TokenSums) -> None:
    """Backward through the head a slice at a time, then once through the body: logits never stand whole in memory."""
    hidden = network.hidden(pack)
    leaf = hidden.detach().requires_grad_()
    for start in range(0, len(leaf), _HEAD_TOKENS):
        part = _Part.of(pack, range(start, min(start + _HEAD_TOKENS, len(leaf))), lessons)
        objective = _objective(network, leaf[start : start + _HEAD_TOKENS], part, step, sums)
        if not math.isfinite(objective.item()):
            raise NotFiniteLossError(f"the loss of {_names(pack, lessons)} is {-objective.item()}")
        torch.autograd.backward(-objective)
        sums.objective += objective.item()
    torch.autograd.backward(hidden, leaf.grad)


@dataclass(frozen=True)
class _Part:
    """The targets that are predicted from some of a pack's places, all (T,)."""

    places: torch.Tensor
    """Counted from the part's first."""
    targets: torch.Tensor
    behaviour: torch.Tensor
    advantages: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def of(cls, pack: Pack, places: range, lessons: Sequence[Lesson]) -> "_Part":
        chosen = [target for target, place in enumerate(pack.places) if place in places]
        mine = [lessons[pack.rows[target]] for target in chosen]
        return cls(
            torch.tensor([pack.places[target] - places.start for target in chosen]),
            torch.tensor([pack.targets[target] for target in chosen]),
            torch.tensor([pack.behaviour[target] for target in chosen]),
            torch.tensor([lesson.advantage for lesson in mine]),
            torch.tensor([lesson.weight for lesson in mine]),
        )


def _objective(network: Network, hidden: torch.Tensor, part: _Part, step: Step, sums: TokenSums) -> torch.Tensor:
    """The weighted sum over the targets of one part of a pack."""
    settings = step.settings
    logprobs = (network.logits(hidden) / settings.temperature).log_softmax(-1)
    logp = logprobs[part.places, part.targets]
    sums.add_entropy(logprobs.detach(), part.places)
    if step.kind == "sft":
        return (part.weights * sft_objective(logp)).sum()
    # One update a batch: the weights at the start of the step are those of this very pass.
    prox = logp.detach()
    clip_low, clip_high, cap = settings.clip_low, settings.clip_high, settings.importance_cap
    sums.add_mismatch(prox, part.behaviour, cap)
    terms = grpo_objective(
        logp,
        prox,
        part.behaviour,
        part.advantages,
        clip_low=clip_low,
        clip_high=clip_high,
        importance_cap=cap,
    )
    return (part.weights * terms).sum()


def _names(pack: Pack, lessons: Sequence[Lesson]) -> str:
    ids = sorted({lessons[row].sample.trajectory_id for row in pack.rows})
    return f"trajectories {', '.join(map(str, ids))}"


def _report(step: Step, plan: Plan, sums: TokenSums, norm: float, seconds: float) -> StepMetrics:
    rewards = [reward for group in step.groups for reward in group.rewards]
    grpo = step.kind == "grpo"
    learned = grpo and sums.tokens > 0
    return StepMetrics(
        loss=-sums.objective,
        grad_norm=norm,
        entropy=sums.mean(sums.entropy),
        trained_tokens=sums.tokens,
        sequences=len(plan.lessons),
        groups=len(step.groups),
        flat_groups=plan.flat_groups,
        single_groups=plan.single_groups,
        seconds=seconds,
        load_seconds=0.0,
        write_seconds=0.0,
        tokens_per_second=sums.tokens / seconds if seconds else 0.0,
        kl=sums.mean(sums.kl) if learned else None,
        mismatch=sums.mean(sums.mismatch) if learned else None,
        importance_max=sums.importance_max if learned else None,
        truncated_fraction=sums.mean(sums.truncated) if learned else None,
        effective_sample=sums.effective_sample if learned else None,
        reward_mean=math.fsum(rewards) / len(rewards) if grpo and rewards else None,
        peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
