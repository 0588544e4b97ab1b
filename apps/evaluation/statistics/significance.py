"""Exact McNemar for single verdicts, and Holm's correction for several candidates against one baseline."""

from collections.abc import Sequence

from scipy import stats

from .interval import StatisticsError


def mcnemar_exact(only_a_solved: int, only_b_solved: int) -> float:
    """Two-sided p of the tasks that one side alone solved, one try a side."""
    discordant = only_a_solved + only_b_solved
    if min(only_a_solved, only_b_solved) < 0:
        raise StatisticsError(f"{only_a_solved} and {only_b_solved} discordant tasks")
    if discordant == 0:
        return 1.0
    return float(stats.binomtest(only_a_solved, discordant, 0.5).pvalue)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted, in the order given."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return tuple(adjusted)
