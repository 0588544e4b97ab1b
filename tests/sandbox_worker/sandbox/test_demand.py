"""The demand for a kind of box: at once up, slowly down, in the end none."""

import pytest

from sandbox_worker.sandbox.demand import HALF_LIFE_SECONDS, Demand, share_out


def asked(*times: float) -> Demand:
    demand = Demand(times[0])
    for now in times:
        demand.ask(now)
    return demand


def test_one_that_is_asked_for_is_wanted() -> None:
    assert asked(10.0).wanted(10.0) == 1


def test_a_burst_is_remembered_whole() -> None:
    assert asked(*[10.0] * 12).wanted(10.5) == 12


def test_few_are_wanted_of_a_kind_that_is_asked_for_now_and_then() -> None:
    assert asked(*range(50)).wanted(50.0) == 1


def test_more_are_wanted_of_a_kind_that_takes_long_to_start() -> None:
    demand = Demand(0.0)
    for _ in range(50):
        demand.started(2.0)
    for tenth in range(100):
        demand.ask(tenth / 10)
    assert 35 <= demand.wanted(10.0) <= 41, "ten a second, and four seconds to replace one"


def test_the_wish_halves_in_a_minute_and_ends() -> None:
    demand = asked(*[0.0] * 8)
    assert [demand.wanted(minutes * HALF_LIFE_SECONDS) for minutes in range(6)] == [8, 4, 2, 1, 0, 0]


@pytest.mark.parametrize(
    ("wanted", "most", "parts"),
    [
        ({"a": 3, "b": 2}, 5, {"a": 3, "b": 2}),
        ({"a": 9, "b": 1}, 5, {"a": 5, "b": 0}),
        ({"a": 6, "b": 3}, 3, {"a": 2, "b": 1}),
        ({"a": 1, "b": 1}, 0, {"a": 0, "b": 0}),
        ({}, 4, {}),
    ],
)
def test_what_is_wanted_is_cut_to_what_there_may_be(wanted: dict[str, int], most: int, parts: dict[str, int]) -> None:
    assert share_out(wanted, most) == parts
