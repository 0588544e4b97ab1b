import math
import random
from pathlib import Path

import msgspec
import pytest
import torch

from learner.errors import LearnerError
from learner.messages import SampleGroup, StepKind, StepMetrics, StepSettings
from learner.network import Network
from learner.optimizer import MasterAdamW
from learner.step import NotFiniteLossError, Step, take_step
from tests.learner.tiny import group, groups, tiny_policy

SETTINGS = StepSettings(learning_rate=1e-3, max_grad_norm=1e9)


class Learning:
    """A tiny network in fp32 and its optimiser."""

    def __init__(self, folder: Path) -> None:
        self.network = Network(tiny_policy(folder / "policy"), torch.float32)
        self.optimizer = MasterAdamW(self.network.module)

    def step(self, kind: StepKind, batch: tuple[SampleGroup, ...], settings: StepSettings = SETTINGS) -> StepMetrics:
        return take_step(self.network, self.optimizer, Step(kind, batch, settings), lambda: None)

    def weights(self) -> list[torch.Tensor]:
        return [weight.detach().clone() for weight in self.network.module.parameters()]

    def on_policy(self, batch: tuple[SampleGroup, ...]) -> tuple[SampleGroup, ...]:
        """The same batch with the network's own log-probabilities as behaviour."""
        return tuple(msgspec.structs.replace(one, samples=tuple(map(self._own, one.samples))) for one in batch)

    def _own(self, sample: object) -> object:
        logprobs = self.network.module(torch.tensor([sample.ids])).logits[0].log_softmax(-1)  # type: ignore[attr-defined]
        places = [place for place, flag in enumerate(sample.trainable) if flag]  # type: ignore[attr-defined]
        values = tuple(logprobs[place - 1, sample.ids[place]].item() for place in places)  # type: ignore[attr-defined]
        return msgspec.structs.replace(sample, logprobs=values)  # type: ignore[type-var]


def test_on_policy_there_is_no_mismatch_and_the_loss_is_minus_the_mean_advantage(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    metrics = learning.step("grpo", learning.on_policy(groups()))
    assert metrics.mismatch == pytest.approx(0, abs=1e-4)
    assert metrics.kl == pytest.approx(0, abs=1e-6)
    assert metrics.importance_max == pytest.approx(1, abs=1e-3)
    assert metrics.effective_sample == pytest.approx(1, abs=1e-4)
    assert metrics.truncated_fraction == 0
    assert metrics.clip_fraction is None
    assert metrics.loss == pytest.approx(0, abs=1e-4)
    assert metrics.grad_norm > 0


def test_the_numbers_of_a_step_say_what_was_learned_from(tmp_path: Path) -> None:
    batch = groups()
    metrics = Learning(tmp_path).step("grpo", batch)
    assert (metrics.groups, metrics.flat_groups, metrics.single_groups, metrics.sequences) == (4, 1, 1, 7)
    assert metrics.trained_tokens == sum(sum(sample.trainable) for one in batch[:2] for sample in one.samples)
    assert metrics.reward_mean == pytest.approx(6.5 / 10)
    assert 0 < metrics.entropy <= math.log(320)


def test_flat_groups_change_nothing(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    before = learning.weights()
    metrics = learning.step("grpo", groups()[2:])
    assert (metrics.trained_tokens, metrics.grad_norm, metrics.kl) == (0, 0, None)
    assert all(map(torch.equal, before, learning.weights()))


def test_a_flat_group_beside_others_changes_no_weight(tmp_path: Path) -> None:
    one, other = Learning(tmp_path / "a"), Learning(tmp_path / "b")
    one.step("grpo", groups())
    other.step("grpo", groups()[:2])
    assert all(map(torch.equal, one.weights(), other.weights()))


def test_a_rewarded_try_becomes_likelier_than_its_unrewarded_sibling(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    one = group(1, (1.0, 0.0), random.Random(4))
    before = learning.on_policy((one,))[0]
    for _ in range(5):
        learning.step("grpo", learning.on_policy((one,)))
    after = learning.on_policy((one,))[0]
    gains = [sum(new.logprobs) - sum(old.logprobs) for new, old in zip(after.samples, before.samples, strict=True)]
    assert gains[0] > 0 > gains[1]


def test_supervised_steps_lower_the_loss(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    losses = [learning.step("sft", groups()).loss for _ in range(6)]
    assert losses[-1] < losses[0] - 0.5


def test_the_sft_loss_is_the_mean_over_trainable_tokens(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    own = [value for one in learning.on_policy(groups()) for sample in one.samples for value in sample.logprobs]
    assert learning.step("sft", groups()).loss == pytest.approx(-sum(own) / len(own), rel=1e-4)


def test_the_temperature_of_the_samples_is_that_of_the_learner(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    hot = msgspec.structs.replace(SETTINGS, temperature=2.0)
    batch = learning.on_policy(groups())
    mismatch = learning.step("grpo", batch, hot).mismatch
    assert mismatch is not None
    assert mismatch > 0.1


def test_a_step_that_is_stopped_leaves_the_weights(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    before = learning.weights()
    calls = iter([None, LearnerError("enough")])

    def keep_going() -> None:
        if error := next(calls):
            raise error

    with pytest.raises(LearnerError, match="enough"):
        take_step(learning.network, learning.optimizer, Step("grpo", groups(), SETTINGS), keep_going)
    assert all(map(torch.equal, before, learning.weights()))
    fresh = Learning(tmp_path / "fresh")
    assert fresh.step("grpo", groups()).grad_norm == learning.step("grpo", groups()).grad_norm


def test_a_loss_that_is_not_finite_names_its_trajectories_and_leaves_the_weights(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    before = learning.weights()
    one = groups()[0]
    poisoned = msgspec.structs.replace(one.samples[0], logprobs=(float("nan"),) * len(one.samples[0].logprobs))
    broken = msgspec.structs.replace(one, samples=(poisoned, *one.samples[1:]))
    with pytest.raises(NotFiniteLossError, match="trajectories 100"):
        learning.step("grpo", (broken,))
    assert all(map(torch.equal, before, learning.weights()))
