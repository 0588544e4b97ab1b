import pytest
import torch

from learner.losses.sft import sft_objective, token_weight


def test_the_loss_is_the_mean_negative_log_likelihood_of_the_tokens() -> None:
    logp = torch.tensor([-1.0, -2.0, -6.0])
    assert -(token_weight(3) * sft_objective(logp)).sum().item() == pytest.approx(3)


def test_a_batch_without_trainable_ids_weighs_nothing() -> None:
    assert token_weight(0) == 0
