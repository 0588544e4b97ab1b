import pytest

from apps.evaluation.collect import EvaluationTry
from apps.evaluation.measure import measure


def one(task: str, family: str, verdict: str, *, rounds: int = 1, limit: int = 2, **given: object) -> EvaluationTry:
    values = {"stopped_early": False, "attempts": 1, "broken": 0, **given}
    return EvaluationTry(task=task, family=family, round_limit=limit, verdict=verdict, rounds=rounds, **values)  # type: ignore[arg-type]


TRIES = [
    one("a", "f", "solved"),
    one("a", "f", "unsolved", rounds=2),
    one("b", "g", "solved", rounds=2),
    one("b", "g", "none", rounds=0, attempts=3, broken=3),
]


def test_the_three_denominators_by_hand() -> None:
    found = measure(TRIES, planned=4)
    assert (found["tasks"], found["started"], found["reached_verdict"], found["solved"]) == (2, 4, 3, 2)
    assert (found["attempts"], found["infra"]) == (6, 3)
    # Each task counts once: (1/2 + 1/2) / 2, (1/2 + 1) / 2 and (0/2 + 3/4) / 2.
    assert found["estimate"] == pytest.approx(0.5)
    assert found["result"]["valid"]["estimate"] == pytest.approx(0.75)
    assert found["result"]["infra"]["estimate"] == pytest.approx(0.375)


def test_solved_within_k_rounds_by_hand() -> None:
    rounds = measure(TRIES, planned=4)["result"]["rounds"]
    assert rounds["cap"] == 2
    assert [(row["rounds"], row["solved"], row["tries"]) for row in rounds["within"]] == [(1, 1, 3), (2, 2, 3)]
    # Round 1: one of three solved, for what infra ended before it was never at risk; round 2: one of two.
    assert (rounds["median"], rounds["censored"]) == (2, 1)


def test_what_never_played_a_round_has_not_outlived_one() -> None:
    parked = [one(task, "f", "none", rounds=0) for task in ("b", "c")]
    rounds = measure([one("a", "f", "solved"), one("a", "f", "unsolved"), *parked], planned=4)["result"]["rounds"]
    assert (rounds["median"], rounds["censored"]) == (1, 2)


def test_the_cap_is_the_tasks_own_limit_though_no_try_used_it() -> None:
    assert measure([one("a", "f", "solved", limit=5)], planned=1)["result"]["rounds"]["cap"] == 5


def test_our_own_early_stops_are_censored() -> None:
    stopped = one("a", "f", "unsolved", stopped_early=True)
    assert measure([stopped, one("b", "g", "solved")], planned=2)["result"]["rounds"]["censored"] == 1


def test_families_and_parts_stand_apart() -> None:
    tries = [*TRIES, one("c", "g", "unsolved", limit=1)]
    result = measure(tries, planned=5)["result"]
    assert {name: (row["solved"], row["started"]) for name, row in result["by_family"].items()} == {
        "f": (1, 2),
        "g": (1, 3),
    }
    assert (result["two_rounds"]["started"], result["one_round"]["started"]) == (4, 1)


def test_with_nothing_played_the_numbers_are_not_defined() -> None:
    found = measure([], planned=3)
    assert (found["estimate"], found["result"]["rounds"], found["result"]["one_round"]) == (None, None, None)


def test_families_that_hold_the_same_task_by_name_stay_one_task() -> None:
    found = measure([one("a", "f", "solved"), one("a", "f", "solved")], planned=2)
    assert found["tasks"] == 1
