"""One uid a box."""

import pytest

from sandbox_worker.sandbox.base import BoxStartError
from sandbox_worker.sandbox.uids import BLOCK, UidPool, block_of, is_mapped

WIDE = range(0x70000000, 0x80000000)


def test_live_boxes_never_share_a_uid() -> None:
    pool = UidPool()
    assert len({pool.take() for _ in range(BLOCK)}) == BLOCK


def test_a_worker_full_of_boxes_starts_no_more() -> None:
    pool = UidPool()
    taken = [pool.take() for _ in range(BLOCK)]
    with pytest.raises(BoxStartError):
        pool.take()
    pool.give_back(taken[3])
    assert pool.take() == taken[3]


def test_the_blocks_of_two_workers_do_not_meet() -> None:
    blocks = [block_of(pid, WIDE) for pid in (1, 2, 3, 1_048_575)]
    assert len({uid for block in blocks for uid in block}) == 4 * BLOCK
    assert all(uid in WIDE for block in blocks for uid in block)


def test_a_container_with_few_uids_is_seen() -> None:
    assert is_mapped(WIDE, "         0          0 4294967295\n")
    assert not is_mapped(WIDE, "         0     100000      65536\n")
    assert is_mapped(range(20_000, 60_000), "0 1000 1\n1 100000 65536\n")
