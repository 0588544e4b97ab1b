"""Packs samples into prefix trees: what samples have in common from their start is computed once. No padding.

Tries of one task share its prompt and, the surer the policy gets, most of what it writes. An id sees the ids on its
own path only, so that a packed sample has the logits and the gradient that it would have alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from learner.errors import LearnerError
from learner.messages import Sample

ROOT = -1


class SampleError(LearnerError):
    """A sample contradicts itself."""


@dataclass
class Pack:
    """One forward pass over N ids with S places to predict from and T targets, a target for each trained token.

    `rows` says of each target which sample it belongs to, by its place in the input.
    """

    ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    """Where in ids the one before it stands, or ROOT: always further ahead."""
    positions: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    """Where in ids something is predicted from, each once: (S,)."""
    targets: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Where in sources each target's logits come from: (T,)."""
    behaviour: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)
    _place_of: dict[int, int] = field(default_factory=dict, repr=False)

    def news(self, ids: Sequence[int]) -> int:
        """How many of these ids are on no path yet."""
        node = ROOT
        for depth, id_ in enumerate(ids):
            child = self._children.get((node, id_))
            if child is None:
                return len(ids) - depth
            node = child
        return 0

    def add(self, row: int, sample: Sample) -> None:
        read, logprobs, node = _read(sample), iter(sample.logprobs), ROOT
        for depth, (id_, trained) in enumerate(zip(sample.ids, sample.trainable, strict=True)):
            if trained:
                self._aim(node, id_, next(logprobs, 0.0), row)
            if depth < len(read):
                node = self._child(node, id_, depth)

    def mask(self, dtype: torch.dtype, unused: int = 0) -> torch.Tensor:
        """Additive attention mask, (1, 1, M, M) for M = N + unused ids that see, and are seen by, no other."""
        visible = torch.eye(len(self.ids) + unused, dtype=torch.bool)
        for node, parent in enumerate(self.parents):
            if parent != ROOT:
                visible[node] |= visible[parent]
        return torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, float("-inf"))[None, None]

    def _child(self, node: int, id_: int, depth: int) -> int:
        child = self._children.setdefault((node, id_), len(self.ids))
        if child == len(self.ids):
            self.ids.append(id_)
            self.parents.append(node)
            self.positions.append(depth)
        return child

    def _aim(self, node: int, target: int, logprob: float, row: int) -> None:
        place = self._place_of.setdefault(node, len(self.sources))
        if place == len(self.sources):
            self.sources.append(node)
        self.targets.append(target)
        self.places.append(place)
        self.behaviour.append(logprob)
        self.rows.append(row)


def check_sample(sample: Sample, vocab: int) -> None:
    """Raises SampleError."""
    trainable = sum(sample.trainable)
    where = f"sample of trajectory {sample.trajectory_id}"
    if len(sample.ids) != len(sample.trainable):
        raise SampleError(f"{where}: {len(sample.ids)} ids but {len(sample.trainable)} flags")
    if sample.logprobs and len(sample.logprobs) != trainable:
        raise SampleError(f"{where}: {trainable} trainable ids but {len(sample.logprobs)} log-probabilities")
    if sample.trainable and sample.trainable[0]:
        raise SampleError(f"{where}: the first id has nothing before it and cannot be trained on")
    if not all(0 <= id_ < vocab for id_ in sample.ids):
        raise SampleError(f"{where}: ids outside 0..{vocab - 1}")


def pack_samples(samples: Sequence[Sample], max_ids: int) -> list[Pack]:
    """A sample's row is its place. A pack holds at most max_ids ids, unless one sample alone is longer."""
    packs: list[Pack] = []
    trained = [(row, sample) for row, sample in enumerate(samples) if any(sample.trainable)]
    for row, sample in sorted(trained, key=lambda pair: pair[1].ids):  # neighbours have most in common
        read = _read(sample)
        if not packs or len(packs[-1].ids) + packs[-1].news(read) > max_ids:
            packs.append(Pack())
        packs[-1].add(row, sample)
    return packs


def _read(sample: Sample) -> tuple[int, ...]:
    """The ids that something trained comes after: the last trained one is a target only."""
    last = len(sample.trainable) - 1 - sample.trainable[::-1].index(True)
    return sample.ids[:last]
