import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner.advantages import UnscoredError, grpo_advantages, is_flat
from tests.learner.golden import GOLDEN

REWARDS = st.lists(st.integers(0, 64).map(lambda n: n / 64), min_size=2, max_size=12)


@pytest.mark.parametrize("case", GOLDEN["advantages"])
def test_advantages_match_the_golden_table(case: str) -> None:
    table = GOLDEN["advantages"][case]
    assert grpo_advantages(table["rewards"], 1e-6) == pytest.approx(table["grpo_unbiased_eps1e6"], abs=1e-9)


@given(REWARDS)
def test_advantages_of_a_group_sum_to_zero(rewards: list[float]) -> None:
    assert math.fsum(grpo_advantages(rewards)) == pytest.approx(0, abs=1e-9)


@given(REWARDS, st.integers(-8, 8))
def test_a_shift_of_all_rewards_changes_nothing(rewards: list[float], shift: int) -> None:
    assert grpo_advantages([reward + shift for reward in rewards]) == pytest.approx(grpo_advantages(rewards), abs=1e-9)


@given(REWARDS, st.sampled_from([0.5, 2, 8]))
def test_a_scale_of_all_rewards_changes_nothing_but_for_epsilon(rewards: list[float], scale: float) -> None:
    scaled = grpo_advantages([reward * scale for reward in rewards], 0)
    assert scaled == pytest.approx(grpo_advantages(rewards, 0), abs=1e-9)


def test_a_flat_group_has_no_advantages() -> None:
    assert grpo_advantages([0.3, 0.3, 0.3]) == (0, 0, 0)


def test_a_group_of_one_is_flat_whatever_its_reward() -> None:
    assert is_flat([0.7])
    assert grpo_advantages([0.7]) == (0,)


def test_an_unscored_try_is_refused() -> None:
    with pytest.raises(UnscoredError, match="finite"):
        grpo_advantages([1.0, math.nan])
