import pytest

from apps.fleet.models import Worker
from apps.pipeline.look_after import expire
from apps.rollouts.expire import hopeless_attempts, lose_attempts
from apps.rollouts.models import Attempt, Rollout
from apps.runs.models import Run
from tests.apps.factories import at, beat, claim, make_outcome, plan_and_claim, record, running, write_segment
from wire.store import FolderStore

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def reasons(run: Run, seconds: float) -> list[str]:
    return [one.reason for one in hopeless_attempts(run, now=at(seconds))]


def held(run: Run, seconds: float = 5) -> str:
    """One attempt that worker w holds; its name."""
    (one,) = plan_and_claim(run, 1)
    name = f"{one.rollout_id}:{one.fence}"
    beat("w", now=at(seconds), holding=[name], slot="0")
    hopeless_attempts(run, now=at(seconds))
    return name


def test_what_a_worker_says_it_holds_is_active() -> None:
    run = running()
    held(run)
    assert Rollout.objects.values_list("state", "incarnation").get() == ("active", "w")


def test_a_worker_that_holds_an_old_fence_makes_nothing_active() -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    beat("w", now=at(5), holding=[f"{one.rollout_id}:{one.fence - 1}"])
    hopeless_attempts(run, now=at(5))
    assert Rollout.objects.get().state == "queued"


def test_what_a_worker_holds_is_not_given_up() -> None:
    run = running()
    name = held(run)
    beat("w", now=at(100), holding=[name], slot="0")
    assert reasons(run, 101) == []


def test_the_attempts_of_a_replaced_worker_are_given_up_at_once() -> None:
    run = running()
    held(run)
    beat("w2", now=at(6), slot="0", started_at=at(6).timestamp())
    assert reasons(run, 6) == ["its worker is gone"]


def test_a_silent_worker_keeps_its_attempts_for_two_minutes() -> None:
    run = running()
    held(run)
    assert reasons(run, 124) == []
    assert reasons(run, 125) == ["its worker is gone"]


def test_past_the_deadline_an_attempt_is_given_up_though_it_is_held() -> None:
    run = running()
    name = held(run)
    beat("w", now=at(900), holding=[name], slot="0")
    assert reasons(run, 900) == ["past its deadline"]


def test_what_no_worker_took_is_given_up_after_two_heartbeats() -> None:
    run = running()
    plan_and_claim(run, 1)
    beat("w", now=at(24))
    assert reasons(run, 24) == []
    beat("w", now=at(26))
    assert reasons(run, 26) == ["no worker holds it"]


def test_nothing_is_given_up_while_the_broker_is_down() -> None:
    run = running()
    plan_and_claim(run, 1)
    beat("w", now=at(5))
    assert reasons(run, 100) == []


def test_a_heartbeat_that_was_sent_before_the_claim_proves_nothing() -> None:
    run = running()
    plan_and_claim(run, 1)
    beat("w", now=at(60), sent_at=at(1).timestamp())
    assert reasons(run, 60) == []


def test_a_lost_attempt_is_planned_again_and_after_the_cap_parked() -> None:
    run = running()
    plan_and_claim(run, 1)
    states = []
    for turn in (1, 2, 3):
        hopeless = hopeless_attempts(run, now=at(turn * 1000))
        assert lose_attempts(run, hopeless, cap=3, now=at(turn * 1000)) == 1
        states.append(Rollout.objects.values_list("state", "attempt").get())
        claim(run, now=at(turn * 1000))
    assert states == [("planned", 1), ("planned", 2), ("parked", 3)]
    assert Rollout.objects.get().parked_reason == "past its deadline"
    assert set(Attempt.objects.values_list("state", flat=True)) == {"lost"}


def test_an_attempt_that_was_claimed_again_meanwhile_is_not_lost() -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    hopeless = hopeless_attempts(run, now=at(1000))
    record(run, [make_outcome(one, run.pk, "none")])
    claim(run)
    assert lose_attempts(run, hopeless, cap=3, now=at(1000)) == 0
    assert Rollout.objects.get().state == "queued"


def test_what_a_worker_wrote_before_it_died_still_counts(store: FolderStore) -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    write_segment(run, [make_outcome(one, run.pk)])
    assert expire(run, store, cap=3, now=at(1000)) == 0
    assert Rollout.objects.get().state == "recorded"


def test_workers_that_are_too_long_silent_are_declared_gone() -> None:
    run = running()
    beat("w")
    hopeless_attempts(run, now=at(120))
    assert Worker.objects.get().gone_reason == "no heartbeat"
