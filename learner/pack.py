"""Packs samples into trees: a group's shared prompt is computed once, its samples branch off. No padding.

An id sees the ids before it in its own branch and its tree's trunk, so that a packed sample has the logits and the
gradient that it would have alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from learner.errors import LearnerError
from learner.messages import Sample

MIXED_IDS = 512
"""Small trees share a pack up to here: beyond, attention across trees that see nothing of each other costs more than
another pass."""


class SampleError(LearnerError):
    """A sample contradicts itself."""


@dataclass
class Pack:
    """One forward pass. `rows` says of each target which sample it belongs to, by its place in the input."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    trees: list[int] = field(default_factory=list)
    branches: list[int] = field(default_factory=list)
    """0 is the trunk."""
    sources: list[int] = field(default_factory=list)
    """Where in ids each target's logits come from."""
    targets: list[int] = field(default_factory=list)
    behaviour: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def mask(self, dtype: torch.dtype) -> torch.Tensor:
        """Additive attention mask: (1, 1, N, N)."""
        trees, branches = torch.tensor(self.trees), torch.tensor(self.branches)
        own = (branches[None] == branches[:, None]) | (branches[None] == 0)
        visible = own & (trees[None] == trees[:, None])
        visible &= torch.ones(len(trees), len(trees), dtype=torch.bool).tril()
        return torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, float("-inf"))[None, None]


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


def pack_groups(groups: Sequence[Sequence[tuple[int, Sample]]], max_ids: int) -> list[Pack]:
    """Samples, each with its row, by groups. A pack holds at most max_ids ids, unless one sample alone is longer."""
    packs = [Pack()]
    tree = 0
    for group in groups:
        kept = [(row, _trimmed(sample), sample) for row, sample in group if any(sample.trainable)]
        trunk = _shared_prompt([sample for _, _, sample in kept])
        opened = False
        for row, length, sample in kept:
            needed = length - 1 - len(trunk) + (0 if opened else len(trunk))
            bound = max_ids if opened else min(max_ids, MIXED_IDS)
            if packs[-1].ids and len(packs[-1].ids) + needed > bound:
                packs.append(Pack())
                opened = False
            if not opened:
                tree += 1
                root = _plant(packs[-1], trunk, tree)
                opened = True
            _branch(packs[-1], sample, length, row, tree, root, len(trunk))
    return [pack for pack in packs if pack.targets]


def _trimmed(sample: Sample) -> int:
    """Length up to the last trainable id: what comes after it changes nothing."""
    return len(sample.trainable) - sample.trainable[::-1].index(True)


def _shared_prompt(samples: Sequence[Sample]) -> tuple[int, ...]:
    """The longest prefix that all have in common and none is trained on."""
    if not samples:
        return ()
    length = min(sample.trainable.index(True) for sample in samples)
    first = samples[0].ids
    for sample in samples[1:]:
        length = next((i for i in range(length) if sample.ids[i] != first[i]), length)
    return first[:length]


def _plant(pack: Pack, trunk: tuple[int, ...], tree: int) -> int:
    """Add a trunk; where it starts."""
    start = len(pack.ids)
    pack.ids.extend(trunk)
    pack.positions.extend(range(len(trunk)))
    pack.trees.extend([tree] * len(trunk))
    pack.branches.extend([0] * len(trunk))
    return start


def _branch(pack: Pack, sample: Sample, length: int, row: int, tree: int, root: int, trunk: int) -> None:
    start = len(pack.ids)
    branch = row + 1
    inner = sample.ids[trunk : length - 1]  # the last id is a target only
    pack.ids.extend(inner)
    pack.positions.extend(range(trunk, trunk + len(inner)))
    pack.trees.extend([tree] * len(inner))
    pack.branches.extend([branch] * len(inner))
    logprobs = iter(sample.logprobs)
    for place in range(length):
        if sample.trainable[place]:
            before = place - 1
            pack.sources.append(root + before if before < trunk else start + before - trunk)
            pack.targets.append(sample.ids[place])
            pack.behaviour.append(next(logprobs, 0.0))
            pack.rows.append(row)
