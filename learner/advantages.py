"""Group-relative advantages: numbers in, numbers out."""

import math
from collections.abc import Sequence

from learner.errors import LearnerError


class UnscoredError(LearnerError):
    """A reward is no finite number. Unscored tries never reach the learner."""


def is_flat(rewards: Sequence[float]) -> bool:
    """All equal: no signal. A group of one is flat too."""
    return all(reward == rewards[0] for reward in rewards)


def grpo_advantages(rewards: Sequence[float], eps: float = 1e-6) -> tuple[float, ...]:
    """(r - mean) / (std + eps) with the unbiased std (n - 1); a flat group and a group of one give zeros."""
    if not all(map(math.isfinite, rewards)):
        raise UnscoredError(f"rewards must be finite numbers, not {list(rewards)}")
    if is_flat(rewards):
        return (0.0,) * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1))
    return tuple((reward - mean) / (std + eps) for reward in rewards)
