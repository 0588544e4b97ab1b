from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.buffer.staleness import (
    Admission,
    StalenessError,
    accepted_after_recovery,
    admission_capacity,
    fresh_enough,
    may_admit,
    oldest_version,
    stale_budget,
    target_age,
    version_lag,
)

EXAMPLE = Admission(max_concurrent=64, running=4, accepted=30, version=3, batch=8, eta=2)


def test_a_sample_is_as_old_as_its_oldest_token() -> None:
    assert oldest_version([7, 5, 6]) == 5
    assert version_lag(5, learner_version=9) == 4


def test_a_sample_without_tokens_has_no_version() -> None:
    with pytest.raises(StalenessError, match="without tokens"):
        oldest_version([])


def test_a_sample_cannot_be_newer_than_the_learner() -> None:
    with pytest.raises(StalenessError, match="version 4 before the learner made it: 3"):
        version_lag(4, learner_version=3)


@pytest.mark.parametrize(("oldest", "fresh"), [(10, True), (8, True), (7, False)])
def test_the_bound_itself_is_still_fresh(oldest: int, fresh: bool) -> None:
    assert fresh_enough(oldest, learner_version=10, eta=2) is fresh


def test_the_capacity_of_the_published_example() -> None:
    assert admission_capacity(EXAMPLE) == 14


def test_capacity_is_bounded_by_free_slots() -> None:
    assert admission_capacity(replace(EXAMPLE, max_concurrent=10)) == 6


def test_capacity_is_never_negative() -> None:
    assert admission_capacity(replace(EXAMPLE, accepted=1000)) == 0
    assert admission_capacity(replace(EXAMPLE, max_concurrent=2)) == 0


def test_with_eta_zero_rollouts_of_one_batch_run() -> None:
    start = Admission(max_concurrent=64, running=0, accepted=0, version=0, batch=8, eta=0)
    assert admission_capacity(start) == 8


def test_a_restart_does_not_let_the_capacity_explode() -> None:
    restarted = replace(EXAMPLE, running=0, version=700, accepted=accepted_after_recovery(700, batch=8))
    assert admission_capacity(restarted) == (2 + 1) * 8
    assert admission_capacity(replace(restarted, accepted=0)) == 64


@pytest.mark.parametrize("changed", [{"batch": 0}, {"running": -1}, {"eta": -1}])
def test_impossible_states_are_refused(changed: dict[str, int]) -> None:
    with pytest.raises(StalenessError, match="not a state"):
        replace(EXAMPLE, **changed)


@given(st.integers(0, 50), st.integers(0, 200), st.integers(0, 20), st.integers(1, 16), st.integers(0, 5))
def test_capacity_fills_the_admission_bound_exactly(
    running: int, accepted: int, version: int, batch: int, eta: int
) -> None:
    state = Admission(10_000, running, accepted, version, batch, eta)
    room = admission_capacity(state)
    admitted = accepted + running + room
    assert not may_admit(admitted + 1, batch, version, eta)
    assert room == 0 or may_admit(admitted, batch, version, eta)


@pytest.mark.parametrize(("already", "budget"), [(0, 23), (5, 18), (30, 0)])
def test_the_stale_budget_is_what_the_threshold_leaves(already: int, budget: int) -> None:
    assert stale_budget(0.15, sync_interval=1, batches=5, mini_batch=4, already_stale=already) == budget


def test_a_sample_ages_towards_the_step_it_is_reserved_for() -> None:
    assert target_age(generation_version=4, target_step=6) == 2
    with pytest.raises(StalenessError, match="earlier step 3"):
        target_age(generation_version=4, target_step=3)
