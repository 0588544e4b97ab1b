import pytest

from apps.evaluation.statistics.interval import Interval, StatisticsError, t_interval, t_two_sided_p


def test_a_missing_bound_needs_a_reason() -> None:
    with pytest.raises(StatisticsError, match="without a reason"):
        Interval(0.5, None, None, 4, 1, "any")


def test_no_error_gives_no_interval_and_never_one_of_zero_width() -> None:
    found = t_interval(0.5, 0.0, 9, 10, 10, "any")
    assert not found.defined
    assert found.why == "no spread between clusters"


def test_few_clusters_are_said_to_be_few() -> None:
    assert t_interval(0.5, 0.1, 6, 40, 7, "any").why == "only 7 clusters: unreliable"
    assert t_interval(0.5, 0.1, 7, 40, 8, "any").why == ""


def test_t_with_one_degree_is_the_textbook_one() -> None:
    found = t_interval(0.0, 1.0, 1, 2, 2, "any")
    assert found.high == pytest.approx(12.7062, abs=1e-4)
    assert t_two_sided_p(12.7062, 1) == pytest.approx(0.05, abs=1e-6)
