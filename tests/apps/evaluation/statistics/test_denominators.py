import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.evaluation.statistics.denominators import Completion, EndedTry, completion_of
from apps.evaluation.statistics.interval import StatisticsError


def test_before_the_first_try_nothing_is_defined() -> None:
    rates = completion_of([], planned=12)
    assert (rates.intent_to_treat.estimate, rates.valid.estimate, rates.infra.estimate) == (None, None, None)


@pytest.mark.parametrize(
    "counts",
    [
        {"solved": 3, "started": 4, "reached_verdict": 2, "infra": 0, "planned": 4},
        {"solved": 1, "started": 4, "reached_verdict": 5, "infra": 0, "planned": 8},
        {"solved": 1, "started": 9, "reached_verdict": 5, "infra": 0, "planned": 8},
        {"solved": 1, "started": 4, "reached_verdict": 4, "infra": 5, "planned": 4},
        {"solved": 1, "started": 4, "reached_verdict": 4, "infra": 0, "planned": 4, "attempts": 3},
    ],
)
def test_counts_that_do_not_fit_together_are_refused(counts: dict[str, int]) -> None:
    with pytest.raises(StatisticsError, match="do not fit"):
        Completion(**counts)


def test_several_tries_of_a_task_are_clustered() -> None:
    tries = [EndedTry(f"t{n % 10}", f"f{n % 5}", "solved" if n % 10 < 4 else "unsolved") for n in range(40)]
    rates = completion_of(tries, planned=40)
    assert (rates.counts.solved, rates.counts.started, rates.intent_to_treat.n) == (16, 40, 10)
    assert rates.intent_to_treat.estimate == pytest.approx(0.4)
    assert rates.intent_to_treat.clusters == 5


def test_a_parked_try_is_unsolved_of_all_and_absent_among_the_graded() -> None:
    tries = [EndedTry("a", "a", "solved", attempts=2, broken=1), EndedTry("b", "b", "none", attempts=3, broken=3)]
    rates = completion_of(tries, planned=2)
    assert (rates.intent_to_treat.estimate, rates.valid.estimate) == (0.5, 1)
    assert (rates.counts.infra, rates.counts.attempts_started) == (4, 5)


ended = st.builds(
    EndedTry,
    task=st.sampled_from(["a", "b", "c"]),
    family=st.just("f"),
    verdict=st.sampled_from(["solved", "unsolved", "none"]),
)


@given(st.lists(ended, max_size=20))
def test_the_order_of_tries_does_not_matter(tries: list[EndedTry]) -> None:
    assert completion_of(tries, planned=20) == completion_of(tries[::-1], planned=20)
