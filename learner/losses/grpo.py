"""The clipped, importance-corrected GRPO objective of each token, and what each token weighs in the mean."""

from collections.abc import Sequence

import torch

from learner.corrections import importance, truncated


def grpo_objective(
    logp: torch.Tensor,
    prox: torch.Tensor,
    behaviour: torch.Tensor,
    advantages: torch.Tensor,
    *,
    clip_low: float,
    clip_high: float,
    importance_cap: float,
) -> torch.Tensor:
    """To be maximised, all (T,). The clip is centred on prox; the correction (prox over behaviour) is outside it."""
    ratio = torch.exp(logp - prox)
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    surrogate = torch.minimum(ratio * advantages, clipped * advantages)
    return truncated(importance(prox, behaviour), importance_cap) * surrogate


def sequence_weights(lengths_of_groups: Sequence[Sequence[int]]) -> list[list[float]]:
    """Weight of each token of each sequence: the mean over the sequence, then its group, then the groups.

    A sequence without trainable tokens does not count, nor does a group of only such.
    """
    counted = [sum(length > 0 for length in lengths) for lengths in lengths_of_groups]
    groups = sum(count > 0 for count in counted)
    return [
        [1 / (length * count * groups) if length else 0.0 for length in lengths]
        for lengths, count in zip(lengths_of_groups, counted, strict=True)
    ]
