"""How far behind the learner a sample is."""

from collections.abc import Iterable


def branch_lag(oldest_version: int, live_versions: Iterable[int]) -> int:
    """The lag in learner steps: numbers that a rewind left behind are no steps."""
    return sum(version > oldest_version for version in live_versions)
