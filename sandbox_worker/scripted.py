"""Rounds from a script: the task's own solution, really executed, or nothing at all.

With a tokenizer, each round gets the ids that a policy would have had to sample: the traces of supervised training.
"""

from collections.abc import Sequence

from sandbox_worker.attempt import Attempt
from sandbox_worker.messages import RolloutLimits
from sandbox_worker.policy import ContextFullError, Policy, Turn
from sandbox_worker.protocols.fenced_shell import SUBMIT_MESSAGE, SYSTEM_PROMPT, compose
from sandbox_worker.tokenization import ChatTokenizer, TokenChain


class ScriptedPolicy(Policy):
    """Writes its scripts one a round, then submits."""

    def __init__(
        self, scripts: Sequence[str], limits: RolloutLimits, tokenizer: ChatTokenizer | None, instruction: str
    ) -> None:
        self._messages = [*map(compose, scripts), SUBMIT_MESSAGE]
        self._limits = limits
        self._tokenizer = tokenizer
        self._chain = None
        if tokenizer is not None:
            self._chain = TokenChain(tokenizer, system=SYSTEM_PROMPT, instruction=instruction)

    def turn(self, index: int, attempt: Attempt) -> Turn:
        message = self._messages[min(index, len(self._messages)) - 1]
        if self._tokenizer is None or self._chain is None:
            return Turn(message=message, cut=False, finish_reason="stop")
        chain, prompt, new_ids, split = self._chain, self._chain.ids, self._chain.new_ids, self._chain.split
        ids = (*self._tokenizer.encode(self._tokenizer.plain(message)), *self._tokenizer.eos_ids[:1])
        if len(prompt) + len(ids) > self._limits.context_tokens:
            raise ContextFullError
        chain.sampled(ids)
        return Turn(
            message=message,
            cut=False,
            finish_reason="stop",
            prompt_tokens=len(prompt),
            sampled_tokens=len(ids),
            split=split,
            prompt_ids=new_ids,
            sampled_ids=ids,
        )

    def observe(self, observation: str) -> None:
        if self._chain is not None:
            self._chain.observed(observation)
