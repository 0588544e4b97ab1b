from collections.abc import Sequence

import pytest
import torch

from learner.serve.cohort import Cohort, Policy, Room, Row, Shared
from learner.serve.prefixes import PrefixCache
from learner.serve.weights import load_weights
from tests.learner.tiny import tiny_policy

POSITIONS = 32
PLENTY = 1 << 30


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    weights, digest = load_weights(tiny_policy(tmp_path_factory.mktemp("tiny") / "policy"), torch.float32)
    return Policy("tiny@0", "policies/tiny", digest, weights)


def row_bytes(policy: Policy) -> int:
    return POSITIONS * policy.weights.shape.kv_bytes(policy.weights.dtype)


def cohort(policy: Policy, room: Room) -> Cohort:
    return Cohort(policy, POSITIONS, Shared(room, PrefixCache(1 << 20)))


def broke(error: Exception) -> None:
    raise error


def rows(n: int, max_tokens: int = 6) -> list[Row]:
    return [
        Row(
            prompt=(5, 9, 20 + place),
            max_tokens=max_tokens + place % 3,
            temperature=1.0,
            stop=frozenset(),
            seed=str(place),
            done=lambda: None,
            fail=broke,
        )
        for place in range(n)
    ]


def sampled(cohorts: Sequence[Cohort], asked: Sequence[Row]) -> list[list[int]]:
    """After every cohort had its turns until nothing was left."""
    for _ in range(1000):
        for each in cohorts:
            each.turn()
        if all(each.idle for each in cohorts):
            return [row.ids for row in asked]
    raise AssertionError("a cohort never came to its end")


def test_rows_that_wait_for_memory_are_sampled_as_they_would_be_with_plenty(policy: Policy) -> None:
    together, apart = rows(20), rows(20)
    wide, narrow = cohort(policy, Room(PLENTY)), cohort(policy, Room(3 * row_bytes(policy)))
    wide.waiting.extend(together)
    narrow.waiting.extend(apart)
    assert sampled([wide], together) == sampled([narrow], apart)


def test_two_cohorts_share_the_room_and_both_come_to_their_end(policy: Policy) -> None:
    room = Room(9 * row_bytes(policy))
    first, second = cohort(policy, room), cohort(policy, room)
    asked = rows(24)
    first.waiting.extend(asked[:20])
    second.waiting.extend(asked[20:])
    assert all(len(ids) >= 6 for ids in sampled([first, second], asked))
    first.close()
    second.close()
    assert room.left == 9 * row_bytes(policy)


def test_a_row_longer_than_the_room_is_sampled_alone(policy: Policy) -> None:
    small = cohort(policy, Room(1))
    asked = rows(3)
    small.waiting.extend(asked)
    assert all(len(ids) >= 6 for ids in sampled([small], asked))


def test_memory_is_given_back_when_most_rows_are_done(policy: Policy) -> None:
    room = Room(PLENTY)
    one = cohort(policy, room)
    asked = [*rows(31, max_tokens=2), *rows(1, max_tokens=20)]
    one.waiting.extend(asked)
    one.turn()
    most = room.left
    for _ in range(10):
        one.turn()
    assert len(one.rows) == 1
    assert room.left - most >= 24 * row_bytes(policy)
