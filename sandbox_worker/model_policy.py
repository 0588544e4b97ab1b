"""Rounds written by a language model: by ids where the server speaks them, else by chat messages."""

import hashlib

from sandbox_worker.attempt import Attempt
from sandbox_worker.messages import PolicyCall, RolloutLimits
from sandbox_worker.policy import ContextFullError, Policy, Turn
from sandbox_worker.policy_answer import Sample, read_chat_completion, read_completion
from sandbox_worker.policy_client import PolicyClient
from sandbox_worker.protocols.fenced_shell import SYSTEM_PROMPT
from sandbox_worker.tokenization import ChatTokenizer, TokenChain


def round_seed(seed: int, index: int) -> int:
    """A seed for one round, the same wherever the rollout is played again."""
    digest = hashlib.sha256(f"{seed}:{index}".encode()).digest()
    return int.from_bytes(digest[:4], "big") & 0x7FFFFFFF


class TokenPolicy(Policy):
    """Token in, token out."""

    def __init__(
        self, client: PolicyClient, call: PolicyCall, limits: RolloutLimits, tokenizer: ChatTokenizer, instruction: str
    ) -> None:
        self._client = client
        self._call = call
        self._limits = limits
        self._tokenizer = tokenizer
        self._chain = TokenChain(tokenizer, system=SYSTEM_PROMPT, instruction=instruction)

    def turn(self, index: int, attempt: Attempt) -> Turn:
        chain, prompt = self._chain, self._chain.ids
        room = min(self._limits.round_tokens, self._limits.context_tokens - len(prompt))
        if room < 1:
            raise ContextFullError
        new_ids, split = chain.new_ids, chain.split
        sample, outage = self._sample(prompt, room, index, attempt)
        return Turn(
            message=chain.sampled(sample.ids),
            cut=sample.finish_reason == "length",
            finish_reason=sample.finish_reason,
            policy_version=self._call.version if sample.version is None else sample.version,
            prompt_tokens=sample.prompt_tokens,
            sampled_tokens=sample.sampled_tokens,
            split=split,
            prompt_ids=new_ids,
            sampled_ids=sample.ids,
            logprobs=sample.logprobs,
            outage_seconds=outage,
        )

    def _sample(self, prompt: tuple[int, ...], room: int, index: int, attempt: Attempt) -> tuple[Sample, float]:
        body: dict[str, object] = {
            "model": self._call.model,
            "prompt": prompt,
            "max_tokens": room,
            "temperature": self._call.sampling.temperature,
            "seed": round_seed(self._call.sampling.seed, index),
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": self._tokenizer.eos_ids,
        }
        answer, outage = self._client.post(f"{self._call.url}/v1/completions", body, attempt)
        return read_completion(answer, model=self._call.model, prompt=prompt, max_tokens=room), outage

    def observe(self, observation: str) -> None:
        self._chain.observed(observation)


class ChatPolicy(Policy):
    """For endpoints without ids: nothing can be learned from these rounds."""

    def __init__(self, client: PolicyClient, call: PolicyCall, limits: RolloutLimits, instruction: str) -> None:
        self._client = client
        self._call = call
        self._limits = limits
        self._context = 0
        self._messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": instruction}]

    def turn(self, index: int, attempt: Attempt) -> Turn:
        room = min(self._limits.round_tokens, self._limits.context_tokens - self._context)
        if room < 1:
            raise ContextFullError
        body: dict[str, object] = {
            "model": self._call.model,
            "messages": self._messages,
            "max_tokens": room,
            "temperature": self._call.sampling.temperature,
            "seed": round_seed(self._call.sampling.seed, index),
        }
        answer, outage = self._client.post(f"{self._call.url}/v1/chat/completions", body, attempt)
        sample = read_chat_completion(answer, model=self._call.model)
        self._context = sample.prompt_tokens + sample.sampled_tokens
        self._messages.append({"role": "assistant", "content": sample.text})
        return Turn(
            message=sample.text,
            cut=sample.finish_reason == "length",
            finish_reason=sample.finish_reason,
            policy_version=self._call.version if sample.version is None else sample.version,
            prompt_tokens=sample.prompt_tokens,
            sampled_tokens=sample.sampled_tokens,
            outage_seconds=outage,
        )

    def observe(self, observation: str) -> None:
        self._messages.append({"role": "user", "content": observation})
