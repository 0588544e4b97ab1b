import pytest

from apps.pipeline.idle import IdleShares, Span, covered, merged, shares


@pytest.mark.parametrize(
    ("spans", "union"),
    [
        ([], []),
        ([(3, 4), (1, 2)], [(1, 2), (3, 4)]),
        ([(1, 3), (2, 5), (4, 4.5)], [(1, 5)]),
        ([(1, 2), (2, 3)], [(1, 3)]),
        ([(2, 2), (3, 1)], []),
    ],
)
def test_the_union_of_spans_has_no_overlaps(spans: list[Span], union: list[Span]) -> None:
    assert merged(spans) == union


def test_what_is_covered_counts_once_and_only_within() -> None:
    # Within 2 to 10: 2-3 of the first, 5-7 of two that overlap, 9-10 of the last.
    assert covered([(0, 3), (5, 6), (5.5, 7), (9, 20), (30, 40)], (2, 10)) == 4.0
    assert covered([], (0, 1)) == 0.0


def test_the_shares_by_hand() -> None:
    # The whole is 0 to 20. Steps are made 8-12 and 16-20: the learner waited 12 of 20 seconds. Tries are in flight
    # 0-10 and 11-17: during the steps, 10-11 and 17-20 have none, so the sampler waited 4 of 20 seconds.
    found = shares([(8, 12), (16, 20)], [(0, 6), (4, 10), (11, 17)])
    assert found is not None
    assert (found.seconds, found.learner_waited, found.sampler_waited) == pytest.approx((20, 0.6, 0.2))


def test_steps_and_tries_that_fill_the_time_leave_no_waiting() -> None:
    assert shares([(0, 5), (5, 10)], [(0, 10)]) == IdleShares(10, 0.0, 0.0)


@pytest.mark.parametrize(("steps", "tries"), [([], [(0, 1)]), ([(0, 1)], []), ([(0, 1)], [(1, 2)])])
def test_before_the_first_step_has_ended_there_are_no_shares(steps: list[Span], tries: list[Span]) -> None:
    assert shares(steps, tries) is None
