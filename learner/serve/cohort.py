"""The rows of one policy and one length class that are sampled together. Rows join at any step and leave when done."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from learner.serve.forward import decode, new_memory, prefill
from learner.serve.prefixes import Prefix, PrefixCache
from learner.serve.sampler import draw
from learner.serve.weights import Weights

_FIRST_ROWS = 8
_CHUNK_IDS = 512
_PREFILL_IDS = 2048
"""Prompt ids read between two decoding steps: what rows that already sample may have to wait for."""


@dataclass(eq=False)
class Policy:
    """One served version."""

    name: str
    prefix: str
    digest: str
    weights: Weights
    prefixes: PrefixCache


@dataclass(eq=False)
class Row:
    """One sequence being sampled."""

    prompt: tuple[int, ...]
    max_tokens: int
    temperature: float
    stop: frozenset[int]
    seed: str
    """Everything that its draws depend on beside the logits."""
    done: Callable[[], None]
    fail: Callable[[Exception], None]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: str = ""
    """'stop', 'length', or '' while it runs or if it was cancelled."""
    cancelled: bool = False
    uniform: Callable[[], float] = field(init=False)

    def __post_init__(self) -> None:
        self.uniform = random.Random(self.seed).random

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.ids)

    def take(self, sampled: int, logprob: float) -> None:
        self.ids.append(sampled)
        self.logprobs.append(logprob)
        if sampled in self.stop:
            self.finish = "stop"
        elif len(self.ids) >= self.max_tokens:
            self.finish = "length"


@dataclass
class Counters:
    requests: int = 0
    prompts: int = 0
    """Rows that were started: n a prompt."""
    prompt_tokens: int = 0
    prompt_tokens_reused: int = 0
    """Read before, by an equal prompt or an earlier round."""
    sampled_tokens: int = 0
    cancelled_rows: int = 0
    steps: int = 0
    busy_seconds: float = 0.0


class Cohort:
    """Key-value slots 0 .. len(rows) - 1 belong to the rows in order; memory grows by doubling up to max_rows."""

    def __init__(self, policy: Policy, positions: int, max_rows: int, counters: Counters) -> None:
        self.policy = policy
        self.waiting: deque[Row] = deque()
        self.rows: list[Row] = []
        self._positions = positions
        self._max_rows = max_rows
        self._counters = counters
        self._memory = new_memory(policy.weights, min(_FIRST_ROWS, max_rows), positions)

    @property
    def idle(self) -> bool:
        return not self.rows and not self.waiting

    @torch.inference_mode()
    def turn(self) -> None:
        """Let waiting rows in, then sample one id for every row."""
        self._drop_cancelled()
        self._admit()
        if self.rows:
            self._step()

    def _drop_cancelled(self) -> None:
        gone = [row for row in (*self.rows, *self.waiting) if row.cancelled]
        self.waiting = deque(row for row in self.waiting if not row.cancelled)
        for row in gone:
            if row in self.rows:
                self._remove(self.rows.index(row))
            self._counters.cancelled_rows += 1
            row.done()

    def _admit(self) -> None:
        read = 0
        logits, joined = [], []
        while self.waiting and len(self.rows) < self._max_rows and read < _PREFILL_IDS:
            row = self.waiting.popleft()
            prefix, fresh = self._read(row)
            assert prefix.logits is not None
            read += fresh
            self._join(row, prefix)
            logits.append(prefix.logits)
            joined.append(row)
        if joined:
            self._sample(joined, torch.stack(logits))

    def _read(self, row: Row) -> tuple[Prefix, int]:
        """The prompt's memory and logits, and how many ids had to be read for them."""
        ids = np.asarray(row.prompt, dtype=np.int32)
        found = self.policy.prefixes.find(ids)
        self._counters.prompts += 1
        self._counters.prompt_tokens += len(ids)
        self._counters.prompt_tokens_reused += found[1] if found else 0
        if found and found[1] == len(ids):
            return found[0], 0
        memory = new_memory(self.policy.weights, 1, len(ids))
        known = 0
        if found:
            known = found[1]
            memory[:, :, :, :known] = found[0].memory[:, :, :, :known]
        logits = self._prefill(row.prompt, memory, known)
        prefix = Prefix(ids, memory, logits)
        self.policy.prefixes.add(prefix)
        return prefix, len(ids) - known

    def _prefill(self, prompt: tuple[int, ...], memory: torch.Tensor, known: int) -> torch.Tensor:
        """In chunks: attention over a chunk bounds memory, and a chunk's time bounds a stop."""
        for start in range(known, len(prompt), _CHUNK_IDS):
            ids = torch.tensor(prompt[start : start + _CHUNK_IDS])
            logits = prefill(self.policy.weights, ids, memory, start)
        return logits

    def _join(self, row: Row, prefix: Prefix) -> None:
        slot, length = len(self.rows), len(row.prompt)
        if slot == self._memory.shape[2]:
            wider = new_memory(self.policy.weights, min(2 * slot, self._max_rows), self._positions)
            wider[:, :, :slot] = self._memory
            self._memory = wider
        self._memory[:, :, slot, :length] = prefix.memory[:, :, 0, :length]
        self.rows.append(row)

    def _step(self) -> None:
        newest = torch.tensor([row.ids[-1] for row in self.rows])
        positions = torch.tensor([row.length - 1 for row in self.rows])
        self._sample(list(self.rows), decode(self.policy.weights, newest, positions, self._memory))
        self._counters.steps += 1

    def _sample(self, rows: list[Row], logits: torch.Tensor) -> None:
        temperatures = torch.tensor([row.temperature for row in rows])
        uniforms = torch.tensor([row.uniform() for row in rows], dtype=torch.float64)
        ids, logprobs = draw(logits, temperatures, uniforms)
        for row, sampled, logprob in zip(rows, ids.tolist(), logprobs.tolist(), strict=True):
            row.take(sampled, logprob)
        self._counters.sampled_tokens += len(rows)
        for row in rows:
            if row.finish:
                self._finish(row)

    def _finish(self, row: Row) -> None:
        slot = self.rows.index(row)
        known = row.length - 1  # the last sampled id was never read
        ids = np.asarray((*row.prompt, *row.ids)[:known], dtype=np.int32)
        memory = self._memory[:, :, slot : slot + 1, :known].clone()
        self.policy.prefixes.add(Prefix(ids, memory, None))
        self._remove(slot)
        row.done()

    def _remove(self, slot: int) -> None:
        last = self.rows.pop()
        if slot < len(self.rows):
            self.rows[slot] = last
            self._memory[:, :, slot, : last.length] = self._memory[:, :, len(self.rows), : last.length]
