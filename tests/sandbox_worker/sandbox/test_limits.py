"""Quotas that no box can have are refused by name."""

import pytest

from sandbox_worker.sandbox.base import LimitError, Limits

NAMES = ("cpus", "memory_bytes", "pids", "disk_bytes", "output_bytes", "printed_bytes", "wall_seconds")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), -float("inf")])
def test_a_quota_that_no_box_can_have_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(LimitError, match=f"^{name} of a box must be at least .*, not {value!r}"):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_a_command_may_not_print_less_than_is_kept() -> None:
    with pytest.raises(LimitError, match=r"^printed_bytes"):
        Limits(output_bytes=1000, printed_bytes=999)
