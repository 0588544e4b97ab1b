"""What a host can do without."""

from sandbox_worker.sandbox.room import memory_sizes, spare_memory


def test_memory_is_spare_beyond_the_reserve_and_lacking_below_it() -> None:
    total = memory_sizes()["MemTotal"]
    assert 0 < spare_memory(reserve=0) < total
    assert spare_memory(reserve=total) < 0
