import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.evaluation.statistics.interval import StatisticsError
from apps.evaluation.statistics.proportion import wilson

from .samples import bounds


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (0, 10, 0, 0.2775),
        (8, 10, 0.4902, 0.9433),
        (10, 10, 0.7225, 1),
        (41, 50, 0.6920, 0.9023),
        (0, 300, 0, 0.0126),
        (150, 500, 0.2615, 0.3416),
    ],
)
def test_wilson_gives_the_published_bounds(successes: int, n: int, low: float, high: float) -> None:
    found = wilson(successes, n)
    assert bounds(found) == pytest.approx((low, high), abs=5e-5)
    assert found.estimate == successes / n


def test_no_tries_have_no_rate() -> None:
    found = wilson(0, 0)
    assert (found.estimate, found.low, found.high, found.why) == (None, None, None, "no tries")


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(StatisticsError, match=f"{successes} successes of {n}"):
        wilson(successes, n)


@given(st.integers(1, 2000), st.data())
def test_the_bounds_enclose_the_share_within_zero_and_one(n: int, data: st.DataObject) -> None:
    found = wilson(data.draw(st.integers(0, n)), n)
    low, high = bounds(found)
    assert found.estimate is not None
    assert 0 <= low <= found.estimate <= high <= 1
    assert low < high


@given(st.integers(2, 2000), st.data())
def test_one_more_success_raises_both_bounds(n: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, n - 1))
    fewer, more = bounds(wilson(successes, n)), bounds(wilson(successes + 1, n))
    assert fewer[0] < more[0]
    assert fewer[1] < more[1]
