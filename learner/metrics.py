"""Sums over the trained tokens of a step, and the means that are made from them."""

from dataclasses import dataclass

import torch

from learner.corrections import importance, k3


@dataclass
class TokenSums:
    objective: float = 0.0
    tokens: int = 0
    entropy: float = 0.0
    kl: float = 0.0
    mismatch: float = 0.0
    importance: float = 0.0
    importance_squared: float = 0.0
    importance_max: float = 0.0
    truncated: float = 0.0

    def add_entropy(self, logprobs: torch.Tensor, places: torch.Tensor) -> None:
        """logprobs (S, vocab); places (T,) says which of them each token was predicted from."""
        self.tokens += len(places)
        self.entropy -= float((logprobs.exp() * logprobs).sum(-1).double()[places].sum())

    def add_mismatch(self, prox: torch.Tensor, behaviour: torch.Tensor, cap: float) -> None:
        """Both (T,): log-probabilities of learner and sampler."""
        weights = importance(prox, behaviour).double()
        self.kl += float(k3(behaviour, prox).double().sum())
        self.mismatch += float((prox - behaviour).abs().double().sum())
        self.importance += float(weights.sum())
        self.importance_squared += float((weights**2).sum())
        self.importance_max = max(self.importance_max, float(weights.max()))
        self.truncated += float((weights > cap).sum())

    def mean(self, total: float) -> float:
        return total / self.tokens if self.tokens else 0.0

    @property
    def effective_sample(self) -> float:
        if not self.importance_squared:
            return 0.0
        return self.importance**2 / (self.tokens * self.importance_squared)
