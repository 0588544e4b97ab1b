"""Which boxes wait, which are wanted, which go."""

from sandbox_worker.sandbox.base import BoxSpec, Limits
from sandbox_worker.sandbox.demand import HALF_LIFE_SECONDS
from sandbox_worker.sandbox.shelf import LIFE_SHARE, Shelf, Warm
from tests.sandbox_worker.sandbox.idle_boxes import IdleBox

ONE, OTHER = BoxSpec(workdir="/one"), BoxSpec(workdir="/other")
ROOM = 1000


def warm(kind: BoxSpec, started: float = 0.0) -> Warm:
    return Warm(IdleBox(kind, ""), kind, started)


def shelf_of(most: int = 8, *, asked: dict[BoxSpec, int], waiting: tuple[Warm, ...] = ()) -> Shelf:
    shelf = Shelf(most)
    for kind, count in asked.items():
        for _ in range(count):
            shelf.ask(kind, 0.0)
    for one in waiting:
        shelf.put(one)
    return shelf


def test_a_kind_that_nobody_asked_for_is_not_started() -> None:
    assert shelf_of(asked={}).next_kind(0.0, ROOM) is None


def test_what_is_asked_for_is_started_until_as_many_wait() -> None:
    shelf = shelf_of(asked={ONE: 2})
    assert shelf.next_kind(0.0, ROOM) == ONE
    shelf.under_way[ONE] = 2
    assert shelf.next_kind(0.0, ROOM) is None


def test_the_kind_that_lacks_the_most_is_next() -> None:
    assert shelf_of(asked={ONE: 1, OTHER: 3}).next_kind(0.0, ROOM) == OTHER


def test_a_box_is_given_out_once_and_only_as_its_kind() -> None:
    box = warm(ONE)
    shelf = shelf_of(asked={}, waiting=(box,))
    assert shelf.take(OTHER, 0.0) is None
    assert shelf.take(ONE, 0.0) is box
    assert shelf.take(ONE, 0.0) is None


def test_a_box_with_more_than_a_small_part_of_its_time_gone_is_replaced_and_not_given_out() -> None:
    old = warm(ONE)
    shelf = shelf_of(asked={ONE: 1}, waiting=(old,))
    late = ONE.limits.wall_seconds * LIFE_SHARE + 1
    assert shelf.take(ONE, late) is None
    shelf.ask(ONE, late)
    assert shelf.too_many(late, ROOM) == [old]
    assert shelf.next_kind(late, ROOM) == ONE


def test_the_youngest_is_given_out_so_that_the_old_ones_go_where_fewer_are_wanted() -> None:
    old, young = warm(ONE, 1.0), warm(ONE, 2.0)
    shelf = shelf_of(asked={ONE: 2}, waiting=(young, old))
    assert shelf.take(ONE, 3.0) is young


def test_boxes_whose_kind_is_asked_for_no_more_go_and_are_forgotten() -> None:
    shelf = shelf_of(asked={ONE: 4}, waiting=tuple(warm(ONE) for _ in range(4)))
    assert shelf.too_many(1.0, ROOM) == []
    assert len(shelf.too_many(HALF_LIFE_SECONDS, ROOM)) == 2
    assert len(shelf.too_many(10 * HALF_LIFE_SECONDS, ROOM)) == 2
    assert (shelf.total, shelf.counts(), shelf.next_kind(10 * HALF_LIFE_SECONDS, ROOM)) == (0, {}, None)


def test_a_full_shelf_makes_place_for_a_kind_that_is_asked_for_now() -> None:
    shelf = shelf_of(4, asked={ONE: 4}, waiting=tuple(warm(ONE) for _ in range(4)))
    for _ in range(4):
        shelf.ask(OTHER, 1.0)
    assert shelf.next_kind(1.0, ROOM) is None
    assert [one.kind for one in shelf.too_many(1.0, ROOM)] == [ONE, ONE]
    assert shelf.next_kind(1.0, ROOM) == OTHER


def test_a_few_too_many_stay_while_nobody_wants_their_place() -> None:
    shelf = shelf_of(32, asked={ONE: 16}, waiting=tuple(warm(ONE) for _ in range(16)))
    assert shelf.too_many(HALF_LIFE_SECONDS / 4, ROOM) == []


def test_no_more_wait_than_the_hosts_memory_takes() -> None:
    shelf = shelf_of(asked={ONE: 4}, waiting=(warm(ONE), warm(ONE)))
    assert shelf.next_kind(1.0, 2) is None
    assert len(shelf.too_many(1.0, 1)) == 1
    assert len(shelf.too_many(1.0, -5)) == 1


def test_a_kind_that_does_not_start_is_tried_again_later_and_later() -> None:
    shelf = shelf_of(asked={ONE: 64})
    waited = []
    now = 0.0
    for _ in range(4):
        shelf.failed(ONE, now)
        began = now
        while shelf.next_kind(now, ROOM) is None:
            now += 0.5
        waited.append(now - began)
    assert waited == [1.0, 2.0, 4.0, 8.0]


def test_the_trouble_of_one_kind_is_not_anothers() -> None:
    shelf = shelf_of(asked={ONE: 2, OTHER: 1})
    shelf.failed(ONE, 0.0)
    assert shelf.next_kind(0.0, ROOM) == OTHER


def test_a_box_that_would_soon_be_too_old_is_never_made_to_wait() -> None:
    brief = BoxSpec(limits=Limits(wall_seconds=60.0))
    assert shelf_of(asked={brief: 4}).next_kind(0.0, ROOM) is None


def test_a_box_with_a_way_out_is_made_for_its_attempt() -> None:
    open_kind = BoxSpec(allowed_hosts=("example.org",))
    assert shelf_of(asked={open_kind: 4}).next_kind(0.0, ROOM) is None


def test_a_shelf_of_none_keeps_none() -> None:
    assert shelf_of(0, asked={ONE: 4}).next_kind(0.0, ROOM) is None
