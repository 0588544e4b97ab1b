"""How far the learner's policy is from the sampler's, token by token, and the weight that corrects for it."""

import torch


def importance(prox: torch.Tensor, behaviour: torch.Tensor) -> torch.Tensor:
    """Learner over sampler probability at the start of the step: (T,). No gradient flows through it."""
    return torch.exp(prox - behaviour).detach()


def truncated(weights: torch.Tensor, cap: float) -> torch.Tensor:
    """Truncated importance sampling (TIS): a small bias against a bounded variance."""
    return weights.clamp(max=cap)


def k3(logp: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Unbiased, never negative estimate of KL(sampled from || other) at ids with log-probability logp: (T,)."""
    x = other - logp
    return torch.exp(x) - 1 - x
