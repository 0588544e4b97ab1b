import pytest

from apps.alerts.models import Alert
from apps.lifecycle.models import Event
from apps.pipeline.look_after import check_ledger, watch
from apps.rollouts.models import Attempt, Rollout
from tests.apps.factories import START, at, make_worker, plan_and_claim, running

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def test_an_alert_is_raised_once_and_cleared_once() -> None:
    run = running()
    for problem in ("broken", "broken", "", ""):
        Alert.settle(run, "kind", problem, START)
    assert list(Event.objects.filter(kind__startswith="alert").values_list("kind", flat=True)) == [
        "alert.raised",
        "alert.cleared",
    ]
    assert Alert.objects.get().cleared_at == START


def test_an_open_alert_says_how_it_is_now() -> None:
    run = running()
    Alert.settle(run, "kind", "3 rollouts", START)
    Alert.settle(run, "kind", "4 rollouts", at(1))
    assert Alert.objects.values_list("text", "raised_at").get() == ("4 rollouts", START)


def test_no_worker_and_parked_rollouts_want_a_look() -> None:
    run = running()
    plan_and_claim(run, 2)
    Rollout.objects.filter(index=0).update(state="parked")
    watch(run, now=START)
    assert set(Alert.objects.open().values_list("kind", flat=True)) == {"no-sandbox-worker", "no-learner", "parked"}
    make_worker()
    make_worker("learner")
    watch(run, now=START)
    assert Alert.objects.open().get().text == "1 rollout is parked: every attempt broke."


def test_attempts_that_broke_on_us_want_a_look_and_those_that_broke_at_their_task_do_not() -> None:
    run = running()
    make_worker()
    make_worker("learner")
    plan_and_claim(run, 40)
    first, last = Attempt.objects.order_by("pk")[:10], Attempt.objects.order_by("-pk")[:10]
    Attempt.objects.update(state="recorded", ending_kind="submitted")
    Attempt.objects.filter(pk__in=[one.pk for one in first]).update(ending_kind="infra", ending_detail="task")
    watch(run, now=START)
    assert not Alert.objects.open().exists()
    Attempt.objects.filter(pk__in=[one.pk for one in last]).update(ending_kind="infra", ending_detail="box")
    watch(run, now=START)
    words = "10 of the last 30 attempts broke on our side (33%); what broke at its task is left out."
    assert Alert.objects.open().get().text == words


def test_a_ledger_that_is_not_exact_wants_a_look() -> None:
    run = running()
    plan_and_claim(run, 2)
    assert check_ledger(run, now=START)
    Attempt.objects.earliest("pk").delete()
    assert not check_ledger(run, now=START)
    assert "2 claimed, 1 accounted for" in Alert.objects.open().get().text
