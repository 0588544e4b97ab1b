import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.evaluation.statistics.denominators import EARLY, Completion, EndedTry, completion_of
from apps.evaluation.statistics.interval import StatisticsError
from apps.evaluation.statistics.proportion import wilson


def test_the_same_run_has_three_numbers() -> None:
    rates = Completion(solved=8, started=10, reached_verdict=9, infra=1, planned=10).rates()
    assert rates.intent_to_treat == wilson(8, 10)
    assert rates.valid == wilson(8, 9)
    assert rates.infra == wilson(1, 10)
    assert rates.warning == ""


def test_infra_counts_attempts_not_tries() -> None:
    rates = Completion(solved=2, started=4, reached_verdict=4, infra=3, planned=4, attempts=7).rates()
    assert rates.infra == wilson(3, 7)
    assert rates.intent_to_treat == rates.valid


def test_while_tries_are_missing_the_figure_is_not_final() -> None:
    assert Completion(solved=3, started=4, reached_verdict=4, infra=0, planned=12).rates().warning == EARLY


def test_before_the_first_try_nothing_is_defined() -> None:
    rates = Completion(solved=0, started=0, reached_verdict=0, infra=0, planned=12).rates()
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
