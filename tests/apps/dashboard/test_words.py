"""Numbers in words."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.dashboard import words

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_what_is_not_defined_says_so() -> None:
    for say in (
        words.percent,
        words.points,
        words.count,
        words.seconds,
        words.number,
        words.short_count,
        words.size,
        words.moment,
    ):
        assert say(None) == "n/a"


def test_a_share_is_told_in_per_cent_with_its_interval() -> None:
    assert words.percent(0.615) == "61.5"
    assert words.interval(0.569, 0.659) == "[56.9,\u00a065.9]"
    assert words.interval(None, 0.659) == ""


def test_a_change_has_its_sign_and_nothing_has_none() -> None:
    assert words.points(0.242) == "+24.2"
    assert words.points(-0.0221) == "\u22122.2"
    assert words.points(-0.0001) == "0.0"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0 ms"),
        (0.000134, "0.13 ms"),
        (0.0064, "6.4 ms"),
        (0.032, "32 ms"),
        (6.14, "6.1 s"),
        (132, "2 min 12 s"),
        (120, "2 min"),
        (22320, "6 h 12 min"),
        (273600, "3 d 4 h"),
    ],
)
def test_a_duration_takes_the_unit_that_suits_it(value: float, said: str) -> None:
    assert words.seconds(value) == said


@pytest.mark.parametrize(("value", "said"), [(9999, "9,999"), (38_900, "38.9k"), (4_212_736, "4.2M")])
def test_large_counts_are_shortened(value: float, said: str) -> None:
    assert words.short_count(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0.00192, "0.00192"), (1350.2, "1350"), (-0.0117, "\u22120.0117"), (0, "0")]
)
def test_numbers_keep_three_digits_that_mean_something(value: float, said: str) -> None:
    assert words.number(value) == said


def test_times_show_their_zone() -> None:
    assert words.moment(NOON) == "30 Nov 2026 12:00:00 UTC"
    assert words.ago(NOON - timedelta(hours=3, minutes=9), NOON) == "3 h ago"


def test_one_thing_is_not_many() -> None:
    assert words.plural(1, "try", "tries") == "1 try"
    assert words.plural(1200, "step") == "1,200 steps"
