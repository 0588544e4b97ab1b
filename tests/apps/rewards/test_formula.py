from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.rewards.formula import FORMULAS, BadScoreError, GradedTry, NoVerdictError, UnknownFormulaError, formula

SOLVED = GradedTry(trajectory_id=5, verdict="solved", score=1.0, rounds=3, sampled_tokens=90, seed=1)
every_formula = pytest.mark.parametrize("formula_id", list(FORMULAS))


def test_formulas_are_named_and_versioned() -> None:
    assert list(FORMULAS) == ["all-or-nothing@1", "score@1", "coin@1"]


@pytest.mark.parametrize(("score", "reward"), [(1.0, 1.0), (0.999, 0.0), (0.0, 0.0)])
def test_all_or_nothing_takes_nothing_less_than_all(score: float, reward: float) -> None:
    assert formula("all-or-nothing@1").reward(replace(SOLVED, score=score)) == reward


@given(st.floats(0, 1))
def test_score_is_the_score_of_the_task(score: float) -> None:
    assert formula("score@1").reward(replace(SOLVED, score=score)) == score


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1))
def test_the_coin_is_blind_to_the_grade(trajectory_id: int, seed: int, score: float) -> None:
    coin = formula("coin@1")
    one = replace(SOLVED, trajectory_id=trajectory_id, seed=seed)
    assert coin.reward(one) == coin.reward(replace(one, verdict="unsolved", score=score, rounds=1, sampled_tokens=0))


def test_the_coin_is_fair_and_differs_by_trajectory_and_seed() -> None:
    coin = formula("coin@1")
    tosses = [[coin.reward(replace(SOLVED, trajectory_id=n, seed=seed)) for n in range(4000)] for seed in (1, 2)]
    agreeing = sum(one == other for one, other in zip(*tosses, strict=True))
    # Five standard deviations of 4000 fair tosses are 158.
    assert all(abs(count - 2000) < 158 for count in (sum(tosses[0]), sum(tosses[1]), agreeing))


def test_the_coin_falls_the_same_way_on_every_machine() -> None:
    tosses = [formula("coin@1").reward(replace(SOLVED, trajectory_id=n)) for n in range(8)]
    assert tosses == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]


@every_formula
def test_an_infra_failure_never_gets_a_reward(formula_id: str) -> None:
    with pytest.raises(NoVerdictError, match="trajectory 5 "):
        formula(formula_id).reward(replace(SOLVED, verdict="none", score=None))


@every_formula
@pytest.mark.parametrize("score", [nan, inf, -inf, -0.1, 1.01, None])
def test_a_score_that_is_none_is_refused_by_its_value(formula_id: str, score: float | None) -> None:
    with pytest.raises(BadScoreError, match=f"score {score},"):
        formula(formula_id).reward(replace(SOLVED, score=score))


def test_an_unknown_formula_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownFormulaError, match=r"no formula score@2; there are all-or-nothing@1, score@1, coin@1"):
        formula("score@2")


@every_formula
def test_rewards_stay_within_zero_and_one(formula_id: str) -> None:
    rewards = {formula(formula_id).reward(replace(SOLVED, trajectory_id=n, score=n / 20)) for n in range(21)}
    assert all(0 <= reward <= 1 for reward in rewards)
