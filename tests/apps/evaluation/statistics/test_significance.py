import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.evaluation.statistics.interval import StatisticsError
from apps.evaluation.statistics.significance import holm, mcnemar_exact


def test_mcnemar_doubles_the_binomial_tail() -> None:
    # Of the 1024 outcomes of ten fair tosses, 1 + 10 are this far out on each side.
    assert mcnemar_exact(1, 9) == pytest.approx(22 / 1024)


def test_no_discordant_task_shows_nothing() -> None:
    assert mcnemar_exact(0, 0) == 1


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(StatisticsError):
        mcnemar_exact(-1, 2)


def test_holm_by_hand() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx((0.06, 0.03, 0.06))


def test_holm_of_nothing_is_nothing() -> None:
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= corrected <= 1 for p, corrected in zip(p_values, adjusted, strict=True))
    pairs = sorted(zip(p_values, adjusted, strict=True))
    assert [corrected for _, corrected in pairs] == sorted(adjusted)
