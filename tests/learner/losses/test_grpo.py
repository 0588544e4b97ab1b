import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learner.losses.grpo import grpo_objective, sequence_weights
from tests.learner.golden import GOLDEN

RATIOS = (0.5, 0.9, 1.0, 1.1, 1.25, 1.5)


def column(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def objective(
    logp: torch.Tensor, prox: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor, **changes: float
) -> torch.Tensor:
    settings = {"clip_low": 0.2, "clip_high": 0.2, "importance_cap": 1e9} | changes
    return grpo_objective(logp, prox, behaviour, advantages, **settings)


@pytest.mark.parametrize("case", GOLDEN["ppo_terms"])
def test_clipped_terms_match_the_golden_table(case: str) -> None:
    advantage, low, high = (float(part.split("=")[1]) for part in case.split(","))
    prox = column([-1.0] * len(RATIOS))
    logp = prox + column(RATIOS).log()
    terms = objective(logp, prox, prox, column([advantage] * len(RATIOS)), clip_low=low, clip_high=high)
    assert terms.tolist() == pytest.approx(GOLDEN["ppo_terms"][case], abs=1e-5)


def test_the_decoupled_objective_matches_the_golden_table() -> None:
    table = GOLDEN["decoupled_ppo_A1_eps0.2"]
    terms = objective(column(table["theta"]), column(table["prox"]), column(table["behave"]), column([1.0] * 3))
    assert terms.tolist() == pytest.approx(table["per_token"], abs=1e-5)


def test_published_values_hold_to_four_digits() -> None:
    prox, advantages = column([-1.0] * 3), column([1.0, -1.0, 2.0])
    logp = column([-1.69315, -1.0, -0.59453])
    assert (-objective(logp, prox, prox, advantages)).mean().item() == pytest.approx(-0.6333, abs=1e-3)
    corrected = -objective(logp, prox, column([-0.5, -1.5, -0.8]), advantages)
    assert corrected.mean().item() == pytest.approx(-0.2065, abs=1e-3)
    capped = -objective(logp, prox, column([-0.5, -1.5, -0.8]), advantages, importance_cap=0.8)
    assert capped.mean().item() == pytest.approx(-0.4744, abs=1e-3)


def test_at_ratio_one_the_gradient_is_that_of_reinforce() -> None:
    logp = column([-0.5, -1.5, -3.0]).requires_grad_()
    advantages = column([1.2, -0.7, 0.3])
    torch.autograd.backward(objective(logp, logp.detach(), logp.detach(), advantages).sum())
    assert logp.grad is not None
    assert logp.grad.tolist() == pytest.approx(advantages.tolist(), abs=1e-12)


@given(st.lists(st.floats(-3, 0), min_size=1, max_size=6), st.floats(-2, 2))
def test_an_unreached_cap_is_plain_importance_sampling(behaviour: list[float], advantage: float) -> None:
    prox = column([-1.0] * len(behaviour))
    terms = objective(prox, prox, column(behaviour), column([advantage] * len(behaviour)))
    assert terms.tolist() == pytest.approx([advantage * math.exp(-1 - value) for value in behaviour], abs=1e-9)


def test_a_clipped_token_has_no_gradient() -> None:
    logp = column([-0.5, -2.0, -0.5]).requires_grad_()
    prox, advantages = column([-1.0] * 3), column([1.0, -1.0, -1.0])
    torch.autograd.backward(objective(logp, prox, prox, advantages).sum())
    assert logp.grad is not None
    assert [value != 0 for value in logp.grad.tolist()] == [False, False, True]


def test_aggregation_is_the_mean_over_the_sequence_then_the_group() -> None:
    weights = sequence_weights([[2, 6]])[0]
    assert 2 * weights[0] * 1 + 6 * weights[1] * 2 == pytest.approx(
        GOLDEN["aggregation_len2_loss1_len6_loss2"]["seq_mean_token_mean(GRPO)"]
    )


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=5))
def test_weights_of_all_tokens_sum_to_one_and_empty_sequences_do_not_count(lengths: list[list[int]]) -> None:
    weights = sequence_weights(lengths)
    total = sum(
        length * weight for ls, ws in zip(lengths, weights, strict=True) for length, weight in zip(ls, ws, strict=True)
    )
    assert total == pytest.approx(1 if any(map(any, lengths)) else 0)
