import msgspec
import pytest

from apps.rollouts.cancel import cancel_rollouts, held_anywhere, order_stops
from apps.rollouts.models import Attempt, Rollout
from apps.rollouts.plan import plan_groups
from tests.apps.factories import START, at, beat, claim, make_outcome, plan_and_claim, record, running
from wire.incarnation import Orders, orders_key
from wire.store import FolderStore, MissingObjectError

pytestmark = pytest.mark.django_db


def orders(store: FolderStore) -> set[str]:
    try:
        return set(msgspec.json.decode(store.get(orders_key("w")), type=Orders).cancelled)
    except MissingObjectError:
        return set()


def test_everything_undone_is_cancelled_and_what_is_recorded_stays(store: FolderStore) -> None:
    run = running()
    done, _ = plan_and_claim(run)
    record(run, [make_outcome(done, run.pk)])
    plan_groups(run, run.task_set.versions("train"), purpose="train", size=1)
    assert [cancel_rollouts(run, reason="enough", now=START) for _ in range(2)] == [5, 0]
    assert set(Rollout.objects.values_list("state", flat=True)) == {"recorded", "cancelled"}
    assert set(Attempt.objects.values_list("state", "reason")) == {("recorded", ""), ("cancelled", "enough")}


def test_an_outcome_that_comes_after_the_cancel_changes_nothing(store: FolderStore) -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    cancel_rollouts(run, reason="enough", now=START)
    assert record(run, [make_outcome(one, run.pk)]) == 0
    assert Rollout.objects.get().state == "cancelled"


def test_workers_are_ordered_to_stop_what_does_not_count(store: FolderStore) -> None:
    run = running()
    done, lost, live = plan_and_claim(run, 3)
    record(run, [make_outcome(done, run.pk), make_outcome(lost, run.pk, "none")])
    (again,) = claim(run)
    names = [f"{one.rollout_id}:{one.fence}" for one in (done, live, again, lost)]
    beat("w", holding=names)
    assert order_stops(store) == 1
    assert orders(store) == {f"{lost.rollout_id}:{lost.fence}"}


def test_of_a_rollout_held_under_two_fences_the_old_one_is_stopped(store: FolderStore) -> None:
    run = running()
    (old,) = plan_and_claim(run, 1)
    record(run, [make_outcome(old, run.pk, "none")])
    (new,) = claim(run)
    for holding in ([old, new], [new, old]):
        beat("w", now=at(holding[0].fence), holding=[f"{one.rollout_id}:{one.fence}" for one in holding])
        order_stops(store)
        assert orders(store) == {f"{old.rollout_id}:{old.fence}"}


def test_a_worker_with_nothing_useless_gets_no_order(store: FolderStore) -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    beat("w", holding=[f"{one.rollout_id}:{one.fence}"])
    assert order_stops(store) == 0
    assert orders(store) == set()


def test_what_present_workers_hold_of_a_run_is_counted(store: FolderStore) -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    beat("w", holding=[f"{one.rollout_id}:{one.fence}"])
    assert held_anywhere(run) == 1
    beat("w", now=at(1), leaving=True, holding=[f"{one.rollout_id}:{one.fence}"])
    assert held_anywhere(run) == 0
