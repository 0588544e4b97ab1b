"""Supervised learning on traces: the negative log-likelihood of the trainable ids, mean over the batch's tokens."""

import torch


def sft_objective(logp: torch.Tensor) -> torch.Tensor:
    """To be maximised: (T,)."""
    return logp


def token_weight(trainable: int) -> float:
    """Weight of each trainable token of a batch."""
    return 1 / trainable if trainable else 0.0
