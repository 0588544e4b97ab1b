"""The rows of one policy and one length class that are sampled together. Rows join at any step and leave when done."""

import logging
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

log = logging.getLogger(__name__)

_FIRST_ROWS = 8
_MAX_ROWS = 64
_SHRINK_AT = 4
"""Slots are halved when no more than this part of them, 1 / n, is in use."""
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
    key: object = field(default_factory=object)
    """What the prefix cache knows it by: one that is gone is not kept alive by its prefixes."""


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


class Room:
    """Bytes of key-value memory that all cohorts share."""

    def __init__(self, budget: int) -> None:
        self.left = budget

    def take(self, size: int, *, at_any_cost: bool) -> bool:
        """Whether it was granted. At any cost: for the one row without which a cohort would never go on."""
        if size > self.left and not at_any_cost:
            return False
        self.left -= size
        return True

    def give_back(self, size: int) -> None:
        self.left += size


@dataclass(frozen=True)
class Shared:
    """What the cohorts of an engine have in common."""

    room: Room
    prefixes: PrefixCache
    counters: Counters = field(default_factory=Counters)


class Cohort:
    """Key-value slots 0 .. len(rows) - 1 belong to the rows in order; their number follows that of the rows."""

    def __init__(self, policy: Policy, positions: int, shared: Shared) -> None:
        self.policy = policy
        self.waiting: deque[Row] = deque()
        self.rows: list[Row] = []
        self._positions = positions
        self._room = shared.room
        self._prefixes = shared.prefixes
        self._counters = shared.counters
        self._row_bytes = positions * policy.weights.shape.kv_bytes(policy.weights.dtype)
        self._memory = new_memory(policy.weights, 0, positions)

    @property
    def idle(self) -> bool:
        return not self.rows and not self.waiting

    def close(self) -> None:
        """For a cohort without rows: its memory is free for others."""
        self._shrink(0)

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
        while self.waiting and read < _PREFILL_IDS and self._has_slot():
            row = self.waiting.popleft()
            try:
                prefix, fresh = self._read(row)
                assert prefix.logits is not None
                self._join(row, prefix)
            except Exception as error:  # it is in no list now: nobody else would tell of it
                log.exception("a prompt of %s cannot be read", self.policy.name)
                row.fail(error)
                continue
            read += fresh
            logits.append(prefix.logits)
            joined.append(row)
        if joined:
            self._sample(joined, torch.stack(logits))

    def _read(self, row: Row) -> tuple[Prefix, int]:
        """The prompt's memory and logits, and how many ids had to be read for them."""
        ids = np.asarray(row.prompt, dtype=np.int32)
        found = self._prefixes.find(self.policy.key, ids)
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
        self._prefixes.add(self.policy.key, prefix)
        return prefix, len(ids) - known

    def _prefill(self, prompt: tuple[int, ...], memory: torch.Tensor, known: int) -> torch.Tensor:
        """In chunks: attention over a chunk bounds memory, and a chunk's time bounds a stop."""
        for start in range(known, len(prompt), _CHUNK_IDS):
            ids = torch.tensor(prompt[start : start + _CHUNK_IDS])
            logits = prefill(self.policy.weights, ids, memory, start)
        return logits

    def _join(self, row: Row, prefix: Prefix) -> None:
        slot, length = len(self.rows), len(row.prompt)
        self._memory[:, :, slot, :length] = prefix.memory[:, :, 0, :length]
        self.rows.append(row)

    def _has_slot(self) -> bool:
        """Whether one more row has memory; more is asked for where it is too little."""
        slots = self._memory.shape[2]
        if len(self.rows) < slots:
            return True
        for wanted in (min(max(_FIRST_ROWS, 2 * slots), _MAX_ROWS), slots + 1):
            more = (wanted - slots) * self._row_bytes
            if slots < wanted <= _MAX_ROWS and self._room.take(more, at_any_cost=not slots and wanted == 1):
                self._move(wanted)
                return True
        return False

    def _shrink(self, slots: int) -> None:
        self._room.give_back((self._memory.shape[2] - slots) * self._row_bytes)
        self._move(slots)

    def _move(self, slots: int) -> None:
        """The rows into memory of so many slots."""
        old = self._memory
        self._memory = new_memory(self.policy.weights, slots, self._positions)
        self._memory[:, :, : len(self.rows)] = old[:, :, : len(self.rows)]

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
        self._prefixes.add(self.policy.key, Prefix(ids, memory, None))
        self._remove(slot)
        row.done()

    def _remove(self, slot: int) -> None:
        last = self.rows.pop()
        if slot < len(self.rows):
            self.rows[slot] = last
            self._memory[:, :, slot, : last.length] = self._memory[:, :, len(self.rows), : last.length]
        if len(self.rows) <= self._memory.shape[2] // _SHRINK_AT:
            self._shrink(self._memory.shape[2] // 2)
