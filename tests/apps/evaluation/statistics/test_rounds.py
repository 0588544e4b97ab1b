from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.evaluation.statistics.interval import StatisticsError
from apps.evaluation.statistics.rounds import (
    RoundsTry,
    rounds_to_success,
    solved_within,
)

End = Literal["solved", "unsolved", "stopped_early", "infra"]
ENDS: tuple[End, ...] = ("solved", "unsolved", "stopped_early", "infra")


def tries_of(*found: tuple[int, End]) -> list[RoundsTry]:
    return [RoundsTry(f"t{n}", f"t{n}", rounds, end) for n, (rounds, end) in enumerate(found)]


PUBLISHED = tries_of((1, "solved"), (2, "solved"), (2, "solved"), (5, "solved"), (3, "unsolved"), (5, "unsolved"))
some_tries = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(ENDS)), min_size=1, max_size=20)


def test_the_curve_is_the_published_one() -> None:
    curve = solved_within(PUBLISHED, cap=5)
    assert [point.rate.estimate for point in curve] == pytest.approx([1 / 6, 0.5, 0.5, 0.5, 4 / 6])
    assert [(point.rounds, point.solved, point.tries) for point in curve] == [
        (1, 1, 6),
        (2, 3, 6),
        (3, 3, 6),
        (4, 3, 6),
        (5, 4, 6),
    ]


def test_what_infra_ended_is_not_in_the_denominator_of_the_curve() -> None:
    curve = solved_within(tries_of((1, "solved"), (1, "infra"), (2, "stopped_early")), cap=2)
    assert [(point.solved, point.tries) for point in curve] == [(1, 2), (1, 2)]


def test_giving_up_early_is_not_censoring() -> None:
    found = rounds_to_success(tries_of((1, "unsolved"), (1, "unsolved"), (2, "solved")), cap=3)
    assert found.at_risk == (3, 3, 2)
    assert found.survival == pytest.approx((1, 2 / 3, 2 / 3))
    assert (found.median, found.why, found.censored) == (None, "not reached within 3 rounds", 0)


def test_our_own_stops_and_infra_are_censored_and_counted() -> None:
    ended = tries_of((1, "infra"), (2, "stopped_early"), (2, "solved"), (3, "solved"))
    found = rounds_to_success(ended, cap=4)
    assert found.at_risk == (4, 3, 1, 0)
    assert found.survival == pytest.approx((1, 2 / 3, 0, 0))
    assert (found.median, found.censored, found.tries) == (3, 2, 4)


def test_the_median_is_where_half_are_solved() -> None:
    found = rounds_to_success(PUBLISHED, cap=5)
    assert (found.median, found.why) == (2, "")


def test_no_tries_have_no_median() -> None:
    assert rounds_to_success([], cap=3).why == "no tries"


@pytest.mark.parametrize(("rounds", "end"), [(6, "solved"), (0, "solved"), (-1, "infra")])
def test_rounds_beyond_the_cap_are_refused(rounds: int, end: End) -> None:
    with pytest.raises(StatisticsError, match="of at most 5"):
        rounds_to_success(tries_of((rounds, end)), cap=5)


def test_a_cap_of_no_rounds_is_refused() -> None:
    with pytest.raises(StatisticsError, match="cap of 0"):
        solved_within([], cap=0)


@given(some_tries)
def test_the_curve_never_falls_and_survival_never_rises(found: list[tuple[int, End]]) -> None:
    tries = tries_of(*found)
    solved = [point.solved for point in solved_within(tries, cap=6)]
    survival = rounds_to_success(tries, cap=6).survival
    assert solved == sorted(solved)
    assert list(survival) == sorted(survival, reverse=True)
    assert 0 <= survival[-1] <= 1


@given(some_tries)
def test_without_censoring_survival_is_what_the_curve_leaves(found: list[tuple[int, End]]) -> None:
    tries = tries_of(*[(rounds, "solved" if end == "solved" else "unsolved") for rounds, end in found])
    curve = [point.rate.estimate or 0 for point in solved_within(tries, cap=6)]
    assert rounds_to_success(tries, cap=6).survival == pytest.approx([1 - share for share in curve])


@given(some_tries)
def test_the_order_of_tries_does_not_matter(found: list[tuple[int, End]]) -> None:
    tries = tries_of(*found)
    assert rounds_to_success(tries, cap=6) == rounds_to_success(tries[::-1], cap=6)
    assert solved_within(tries, cap=6) == solved_within(tries[::-1], cap=6)
