"""Who writes the rounds: a language model or a script, behind two methods."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from sandbox_worker.attempt import Attempt
from sandbox_worker.errors import EarlyEndError


class ContextFullError(EarlyEndError):
    """No room is left for another sample: the rollout ends as limit(context)."""


@dataclass(frozen=True)
class Turn:
    """One message of the policy and how it came about."""

    message: str
    cut: bool
    """The sample met its limit of ids before the policy ended it."""
    finish_reason: str = ""
    policy_version: int | None = None
    prompt_tokens: int = 0
    """Sent for this turn."""
    sampled_tokens: int = 0
    split: bool = False
    prompt_ids: tuple[int, ...] = ()
    sampled_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    outage_seconds: float = 0.0
    """Spent waiting for a policy server that was away: not the agent's time."""


class Policy(ABC):
    """Lives as long as one attempt."""

    @abstractmethod
    def turn(self, index: int, attempt: Attempt) -> Turn:
        """Write round index. Raises ContextFullError, AttemptCancelledError, and errors of its own boundary."""

    @abstractmethod
    def observe(self, observation: str) -> None:
        """Hear what the last command did."""
