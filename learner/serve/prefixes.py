"""Key-value memory of what was read before, by its ids: equal prompts are read once, a next round only its news."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

Ids = npt.NDArray[np.int32]
_WORTH_COPYING = 8


@dataclass(frozen=True)
class Prefix:
    ids: Ids
    memory: torch.Tensor
    """(layers, 2, 1, at least len(ids), kv_width)"""
    logits: torch.Tensor | None
    """After the last id, where it was computed: (vocab,)."""


class PrefixCache:
    """The most recently used prefixes of all policies within a budget of bytes. Not safe for threads.

    A policy is known by an object of its own; the prefixes of one that is gone age like any other.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._bytes = 0
        self._prefixes: OrderedDict[tuple[object, bytes], Prefix] = OrderedDict()

    def find(self, policy: object, ids: Ids) -> tuple[Prefix, int] | None:
        """The policy's prefix that shares most with ids, and how many ids; all only if its logits are known."""
        best: tuple[tuple[object, bytes], int] | None = None
        for key, prefix in self._prefixes.items():
            if key[0] is not policy:
                continue
            common = _common(prefix.ids, ids)
            if common == len(ids) and not (len(prefix.ids) == len(ids) and prefix.logits is not None):
                common -= 1  # the last id must be read to know what follows it
            if common >= _WORTH_COPYING and (best is None or common > best[1]):
                best = key, common
        if best is None:
            return None
        self._prefixes.move_to_end(best[0])
        return self._prefixes[best[0]], best[1]

    def add(self, policy: object, prefix: Prefix) -> None:
        key = policy, prefix.ids.tobytes()
        size = _size(prefix)
        if size > self._budget or (key in self._prefixes and prefix.logits is None):
            return
        if replaced := self._prefixes.pop(key, None):
            self._bytes -= _size(replaced)
        self._prefixes[key] = prefix
        self._bytes += size
        while self._bytes > self._budget:
            _, dropped = self._prefixes.popitem(last=False)
            self._bytes -= _size(dropped)


def _common(a: Ids, b: Ids) -> int:
    length = min(len(a), len(b))
    differing = np.flatnonzero(a[:length] != b[:length])
    return int(differing[0]) if len(differing) else length


def _size(prefix: Prefix) -> int:
    return prefix.memory.nbytes + (prefix.logits.nbytes if prefix.logits is not None else 0)
