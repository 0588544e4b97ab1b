import pytest

from apps.evaluation.statistics.interval import StatisticsError
from apps.evaluation.statistics.power import PairedSpread, detectable_difference, tasks_needed


def spread(tries: int) -> PairedSpread:
    return PairedSpread(between_tasks=1 / 9, within_a=1 / 6, within_b=1 / 6, tries_a=tries, tries_b=tries)


@pytest.mark.parametrize(("tries", "tasks"), [(1, 3876), (10, 1260)])
def test_three_points_need_the_published_number_of_tasks(tries: int, tasks: int) -> None:
    assert tasks_needed(0.03, spread(tries)) == tasks


def test_so_many_tasks_detect_what_they_were_needed_for() -> None:
    assert detectable_difference(1260, spread(10)) == pytest.approx(0.03, abs=1e-5)


def test_more_tries_cannot_beat_the_spread_between_tasks() -> None:
    assert tasks_needed(0.03, spread(100_000)) > 960


def test_nothing_detects_no_difference() -> None:
    with pytest.raises(StatisticsError, match="is 0"):
        tasks_needed(0, spread(1))


def test_no_tasks_or_tries_show_nothing() -> None:
    with pytest.raises(StatisticsError):
        detectable_difference(0, spread(1))
    with pytest.raises(StatisticsError):
        tasks_needed(0.1, spread(0))
