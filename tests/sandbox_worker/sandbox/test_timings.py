"""Quantiles and rates of what happened lately."""

import pytest

from sandbox_worker.sandbox.timings import Timings


def test_before_the_first_there_is_no_number() -> None:
    timings = Timings(0.0)
    assert (timings.quantile(0.5), timings.milliseconds("wait"), timings.per_second(9.0)) == (None, {}, 0.0)


def test_quantiles_are_of_what_was_seen() -> None:
    timings = Timings(0.0)
    for hundredth in range(100):
        timings.add(1.0, hundredth / 100)
    assert timings.milliseconds("wait") == {"wait_p50_ms": 500.0, "wait_p95_ms": 950.0}


def test_only_the_last_two_thousand_count() -> None:
    timings = Timings(0.0)
    for seconds in (9.0, *[1.0] * 2000):
        timings.add(1.0, seconds)
    assert timings.quantile(1.0) == 1.0


@pytest.mark.parametrize(("now", "rate"), [(0.5, 10.0), (5.0, 2.0), (29.0, 10 / 29), (31.0, 0.0)])
def test_a_rate_is_of_the_last_half_minute_or_of_the_time_since_the_start(now: float, rate: float) -> None:
    timings = Timings(0.0)
    for _ in range(10):
        timings.add(0.4)
    assert timings.per_second(now) == pytest.approx(rate)
