from typing import Any

import pytest

from benchmarks.control import targets


def arms(true: tuple[float | None, ...], coin: tuple[float | None, ...]) -> dict[str, dict[str, Any]]:
    """Estimate, low and high of both."""
    return {
        arm: {"held_out": {"paired_difference": dict(zip(("estimate", "low", "high"), values, strict=True))}}
        for arm, values in (("true reward", true), ("coin", coin))
    }


@pytest.mark.parametrize(
    ("true", "coin", "met"),
    [
        ((0.4, 0.3, 0.5), (0.02, -0.1, 0.14), [True, True, True, True]),
        ((0.4, 0.3, 0.5), (-0.2, -0.3, -0.1), [True, True, True, True]),
        ((0.4, 0.3, 0.5), (0.2, -0.1, 0.5), [True, True, False, False]),
        ((0.4, 0.3, 0.5), (0.05, -0.4, 0.5), [True, True, True, False]),
        ((0.1, 0.0, 0.2), (0.1, 0.0, 0.2), [False, False, False, False]),
        ((None, None, None), (0.0, 0.0, 0.0), [False, False, True, False]),
        ((0.4, None, None), (0.0, None, None), [True, False, True, False]),
    ],
)
def test_a_coin_must_stay_small_and_below_the_true_reward(
    true: tuple[float | None, ...], coin: tuple[float | None, ...], met: list[bool]
) -> None:
    assert [target.met for target in targets(arms(true, coin), quick=False)] == met


def test_a_quick_run_decides_nothing() -> None:
    found = targets(arms((0.4, 0.3, 0.5), (0.0, 0.0, 0.0)), quick=True)
    assert [target.met for target in found] == [None] * 4
