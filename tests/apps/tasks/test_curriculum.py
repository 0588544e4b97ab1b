from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.tasks.curriculum import AT_ONCE, FLOOR, Candidate, choose, expected_success, family_weight, weight

tallies = st.integers(0, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
pools = st.lists(st.tuples(st.sampled_from("abcde"), tallies), max_size=30).map(
    lambda rows: [Candidate(i, family, k, n) for i, (family, (k, n)) in enumerate(rows)]
)


def test_the_posterior_by_hand() -> None:
    assert expected_success(Candidate(1, "f")) == 0.5
    assert expected_success(Candidate(1, "f", 3, 8)) == 0.4
    assert weight(Candidate(1, "f", 3, 8)) == pytest.approx(4 * 0.24**2 + FLOOR)


@given(tally=tallies)
def test_a_weight_stays_between_the_floor_and_that_of_an_even_task(tally: tuple[int, int]) -> None:
    assert FLOOR < weight(Candidate(1, "f", *tally)) <= 0.25 + FLOOR


@given(trials=st.integers(1, 50))
def test_always_solved_and_never_solved_weigh_the_same_and_less_with_each_try(trials: int) -> None:
    solved, never = weight(Candidate(1, "f", trials, trials)), weight(Candidate(1, "f", 0, trials))
    assert abs(solved - never) < 1e-12
    assert solved < weight(Candidate(1, "f", trials - 1, trials - 1))


@given(pool=pools, n=st.integers(0, 40), seed=st.integers(0, 9))
def test_chosen_tasks_are_different_and_as_many_as_asked_for(pool: list[Candidate], n: int, seed: int) -> None:
    chosen = choose(pool, n, Random(seed))
    assert len(chosen) == len(set(chosen)) == min(n, len(pool))
    assert chosen == choose(pool, n, Random(seed))


@given(pool=pools, n=st.integers(0, 40), seed=st.integers(0, 9))
def test_families_take_turns_until_one_runs_out(pool: list[Candidate], n: int, seed: int) -> None:
    size = Counter(candidate.family for candidate in pool)
    family = {candidate.task_id: candidate.family for candidate in pool}
    took = Counter(family[task] for task in choose(pool, n, Random(seed)))
    fewest_open = min((took[name] for name in size if took[name] < size[name]), default=None)
    assert fewest_open is None or max(took.values(), default=0) <= fewest_open + AT_ONCE


def test_families_that_are_solved_or_hopeless_come_less_often() -> None:
    tallies = {"even": (8, 16), "solved": (16, 16), "hopeless": (0, 16)}
    pool = [Candidate(number, name, *tally) for number, (name, tally) in enumerate(tallies.items())]
    rng = Random(3)
    first = Counter(pool[choose(pool, 1, rng)[0]].family for _ in range(4000))
    assert first["even"] > 2 * first["solved"]
    assert abs(first["solved"] - first["hopeless"]) < 200
    assert min(first.values()) > 200


def test_a_family_is_weighed_by_the_tries_of_all_its_tasks() -> None:
    fresh = [Candidate(0, "fresh"), Candidate(1, "fresh")]
    told = [Candidate(2, "told", 0, 16), Candidate(3, "told")]
    assert family_weight(told) < family_weight(fresh)


def test_tasks_of_a_family_come_as_often_as_their_weights_say() -> None:
    pool = [Candidate(0, "f", 4, 8), Candidate(1, "f", 8, 8), Candidate(2, "f", 0, 8)]
    rng = Random(7)
    seen = Counter(choose(pool, 1, rng)[0] for _ in range(4000))
    total = sum(weight(candidate) for candidate in pool)
    for candidate in pool:
        assert abs(seen[candidate.task_id] / 4000 - weight(candidate) / total) < 0.03
