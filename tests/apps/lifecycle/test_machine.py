import pytest
from django.db import IntegrityError, transaction

from apps.lifecycle.machine import IllegalMoveError
from apps.lifecycle.models import Event, Transition
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from tests.apps.factories import make_run, plan_and_claim, running, together

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def test_a_move_writes_one_transition_and_one_event() -> None:
    run = make_run()
    Transition.objects.all().delete()
    Event.objects.all().delete()
    assert run.move("running", actor="ada", reason="go")
    assert list(Transition.objects.values_list("subject", "before", "after", "actor", "reason")) == [
        ("run", "queued", "running", "ada", "go")
    ]
    assert Event.objects.get().kind == "run.running"


def test_an_edge_that_does_not_exist_is_refused() -> None:
    with pytest.raises(IllegalMoveError, match=r"run \d+ cannot go from queued to finished"):
        make_run().move("finished")


def test_who_lost_the_race_changes_nothing_and_sees_the_new_state() -> None:
    run = make_run()
    Run.objects.get(pk=run.pk).move("running")
    count = Transition.objects.count()
    assert not run.move("paused")
    assert run.state == "running"
    assert Transition.objects.count() == count


@pytest.mark.django_db(transaction=True)
def test_of_moves_at_once_one_wins() -> None:
    run = make_run()
    copies = [Run.objects.get(pk=run.pk) for _ in range(2)]
    assert sorted(together(lambda: copies.pop().move("running"))) == [False, True]
    assert Transition.objects.filter(after="running").count() == 1


def test_many_move_in_one_statement_and_only_from_the_states_given() -> None:
    run = running()
    claims = plan_and_claim(run, 3)
    ids = [one.rollout_id for one in claims]
    Rollout.objects.filter(pk=ids[0]).update(state="recorded")
    assert Rollout.move_many(ids, ["queued", "active"], "cancelled") == 2
    with pytest.raises(IllegalMoveError):
        Rollout.move_many(ids, ["recorded"], "planned")


@pytest.mark.parametrize("model", [Run, Group, Rollout])
def test_the_column_refuses_a_state_that_does_not_exist(model: type[Run]) -> None:
    run = running()
    plan_and_claim(run, 1)
    with pytest.raises(IntegrityError), transaction.atomic():
        model.objects.update(state="asleep")


def test_the_events_of_a_stream_are_numbered_without_gaps() -> None:
    run = running()
    numbers = list(Event.objects.filter(stream=run.stream()).order_by("seq").values_list("seq", flat=True))
    assert numbers == list(range(1, len(numbers) + 1))
