import numpy as np
import torch

from learner.serve.prefixes import Prefix, PrefixCache


def prefix(*ids: int, logits: bool = False) -> Prefix:
    return Prefix(np.array(ids, dtype=np.int32), torch.zeros(1, 2, 1, len(ids), 4), torch.zeros(1) if logits else None)


def find(cache: PrefixCache, *ids: int) -> int | None:
    found = cache.find(POLICY, np.array(ids, dtype=np.int32))
    return found[1] if found else None


POLICY = object()
TEN = tuple(range(10))


def test_an_equal_prompt_is_found_whole_if_what_follows_is_known() -> None:
    cache = PrefixCache(1 << 20)
    cache.add(POLICY, prefix(*TEN, logits=True))
    assert find(cache, *TEN) == 10


def test_the_last_id_is_read_again_where_what_follows_is_not_known() -> None:
    cache = PrefixCache(1 << 20)
    cache.add(POLICY, prefix(*TEN))
    assert find(cache, *TEN) == 9
    assert find(cache, *TEN, 77) == 10


def test_the_longest_common_prefix_wins() -> None:
    cache = PrefixCache(1 << 20)
    cache.add(POLICY, prefix(*TEN, 50, 51))
    cache.add(POLICY, prefix(*TEN, 60, 61))
    assert find(cache, *TEN, 60, 7, 8) == 11


def test_a_short_common_prefix_is_not_worth_it() -> None:
    cache = PrefixCache(1 << 20)
    cache.add(POLICY, prefix(*TEN))
    assert find(cache, 0, 1, 2, 99, 99, 99, 99, 99, 99) is None


def test_the_least_recently_used_goes_when_the_budget_is_spent() -> None:
    one, other, third = (prefix(*range(start, start + 10)) for start in (100, 200, 300))
    cache = PrefixCache(2 * one.memory.nbytes)
    cache.add(POLICY, one)
    cache.add(POLICY, other)
    assert find(cache, *range(100, 111)) == 10
    cache.add(POLICY, third)
    assert find(cache, *range(200, 211)) is None
    assert find(cache, *range(100, 111)) == 10


def test_another_policys_prefixes_are_not_found() -> None:
    cache = PrefixCache(1 << 20)
    cache.add(object(), prefix(*TEN, logits=True))
    assert find(cache, *TEN) is None
