"""One pass: what it does when told to stop, when something breaks, and how much it asks of the database."""

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.alerts.models import Alert
from apps.buffer.ledger import ledger
from apps.evaluation.models import Evaluation
from apps.fleet.models import Worker
from apps.pipeline.advance import advance
from apps.pipeline.end import fail_if_refused, sweep_ended
from apps.pipeline.jobs import nudge, tick
from apps.pipeline.turn import take_long_turn, take_turn
from apps.rewards.score import score_new
from apps.rollouts.cancel import order_stops
from apps.rollouts.models import Attempt, Rollout
from apps.runs import states
from apps.runs.control import cancel, pause, resume
from apps.runs.models import Run
from apps.training import hand_over
from apps.training.models import LearnerStep
from learner.messages import StepRequest
from tests.apps.factories import (
    CONFIG,
    START,
    Sandbox,
    at,
    beat,
    drain_queue,
    make_run,
    make_worker,
    play,
    record,
    running,
    step_outcome,
    together,
)
from tests.apps.policy_server import PolicyServer
from wire.incarnation import Orders, orders_key
from wire.store import FolderStore

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("queues")]


@pytest.fixture
def run(store: FolderStore, policy_server: PolicyServer) -> Run:
    """Running: traces and the first evaluation are in flight."""
    run = make_run(url=policy_server.url)
    make_worker(incarnation="w", capacity=50)
    advance(run, now=START)
    return run


def test_the_first_pass_sends_the_traces_and_the_first_evaluation(run: Run) -> None:
    assert run.state == "running"
    purposes = Rollout.objects.in_flight().values_list("group__purpose", flat=True)
    assert sorted(purposes) == ["evaluation"] * 6 + ["reference"] * 4


def test_a_second_pass_changes_nothing(run: Run) -> None:
    before = list(Rollout.objects.order_by("id").values())
    advance(run, now=START)
    assert list(Rollout.objects.order_by("id").values()) == before
    assert len(drain_queue("rollouts")) == 1


def test_a_paused_run_records_what_is_in_flight_and_sends_no_more(run: Run) -> None:
    pause(run, "ada")
    sandbox = Sandbox(START)
    sandbox.take()
    record_all(run, sandbox)
    advance(run, now=at(1))
    assert not Rollout.objects.in_flight().exists()
    assert drain_queue("learner") == []
    resume(run, "ada")
    advance(run, now=at(2))
    assert len(drain_queue("learner")) == 1


def record_all(run: Run, sandbox: Sandbox) -> None:
    record(run, [sandbox.finish(name, "solved", START) for name in list(sandbox.held)])


def test_a_cancel_cancels_everything_and_ends_when_nobody_holds_anything(run: Run, store: FolderStore) -> None:
    names = [f"{pk}:{fence}" for pk, fence in Rollout.objects.in_flight().values_list("pk", "fence")]
    beat("w", now=at(1), holding=names)
    cancel(run, "ada")
    advance(run, now=at(1))
    order_stops(store)
    assert run.state == "cancelling"
    assert set(Rollout.objects.values_list("state", flat=True)) == {"cancelled"}
    assert set(Attempt.objects.values_list("state", flat=True)) == {"cancelled"}
    assert set(Evaluation.objects.values_list("state", flat=True)) == {"cancelled"}
    assert set(msgspec.json.decode(store.get(orders_key("w")), type=Orders).cancelled) == set(names)
    beat("w", now=at(2))
    advance(run, now=at(2))
    assert run.state == "cancelled"
    assert ledger(run).exact


def test_a_cancel_keeps_what_was_finished_before_it(run: Run, store: FolderStore) -> None:
    sandbox = Sandbox(START)
    sandbox.take()
    name = next(iter(sandbox.held))
    outcome = sandbox.finish(name, "solved", START)
    store.put(f"outcomes/{run.pk}/w/1.jsonl", msgspec.json.encode(outcome))
    cancel(run, "ada")
    advance(run, now=at(1))
    assert Rollout.objects.get(pk=outcome.rollout_id).state == "recorded"


def test_a_cancel_does_not_wait_for_the_dead(run: Run) -> None:
    beat("w", now=at(1), holding=[f"{Rollout.objects.in_flight()[0].pk}:1"])
    cancel(run, "ada")
    advance(run, now=at(2))
    assert run.state == "cancelling"
    advance(run, now=at(130))
    assert run.state == "cancelled"
    assert Worker.objects.get().gone_reason == "no heartbeat"


def test_a_cancel_gives_up_the_step_in_hand(run: Run, store: FolderStore) -> None:
    request = hand_first_step(run)
    beat("l", kind="learner", now=at(2), holding=[f"{request.step_id}:{request.fence}"])
    cancel(run, "ada")
    advance(run, now=at(2))
    hand_over.order_stops(store)
    assert run.state == "cancelling"
    assert LearnerStep.objects.get().state == "failed"
    assert msgspec.json.decode(store.get(orders_key("l")), type=Orders).cancelled
    beat("l", kind="learner", now=at(3))
    advance(run, now=at(3))
    assert run.state == "cancelled"


def hand_first_step(run: Run) -> StepRequest:
    sandbox = Sandbox(START)
    sandbox.take()
    record_all(run, sandbox)
    advance(run, now=at(1))
    (message,) = drain_queue("learner")
    return msgspec.convert(message, StepRequest)


def test_after_three_failed_steps_the_run_fails_with_the_reason_and_stops_its_tries(
    run: Run, store: FolderStore
) -> None:
    request = hand_first_step(run)
    for turn in (2, 3, 4):
        failed = step_outcome(request, state="failed", error="loss is NaN")
        store.put(request.outcome_key, msgspec.json.encode(failed))
        advance(run, now=at(turn))
        run.refresh_from_db()
        request = msgspec.convert((drain_queue("learner") or [msgspec.to_builtins(request)])[0], StepRequest)
    assert (run.state, run.failure) == (
        "failed",
        "3 learner steps in a row failed; the last one: loss is NaN",
    )
    assert not Rollout.objects.undone().exists()
    assert not Evaluation.objects.open().exists()


def test_without_a_trace_that_passes_the_run_fails_with_the_reason(run: Run) -> None:
    sandbox = Sandbox(START)
    sandbox.take()
    record(run, [sandbox.finish(name, "unsolved", START) for name in list(sandbox.held)])
    advance(run, now=at(1))
    run.refresh_from_db()
    assert run.state == "failed"
    assert run.failure.startswith("No reference trace passed")


def test_a_step_that_breaks_is_told_of_and_does_not_stop_the_others(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(formula="unheard@1")
    Rollout.objects.filter(group__purpose="evaluation").update(state="planned")
    advance(run, now=at(1))
    alert = Alert.objects.open().get(kind="pass")
    assert "score: UnknownFormulaError" in alert.text
    assert Rollout.objects.in_flight().filter(group__purpose="evaluation").exists() or "dispatch" in alert.text
    Run.objects.filter(pk=run.pk).update(formula="all-or-nothing@1")
    run.refresh_from_db()
    advance(run, now=at(2))
    assert not any("score" in text for text in Alert.objects.open().values_list("text", flat=True))


def test_a_broken_run_does_not_stop_the_others(store: FolderStore, policy_server: PolicyServer) -> None:
    broken, sound = make_run(url=policy_server.url, name="broken"), make_run(url=policy_server.url, name="sound")
    broken.revisions.update(config={"group_size": "many"})
    make_worker()
    tick()
    sound.refresh_from_db()
    assert sound.state == "running"


def test_a_nudge_of_an_ended_run_does_nothing(run: Run) -> None:
    run.end("failed", START, reason="broke")
    before = list(Alert.objects.values())
    nudge(run.pk)
    assert list(Alert.objects.values()) == before


def test_a_run_that_is_not_served_tells_why(run: Run, policy_server: PolicyServer) -> None:
    policy_server.served, policy_server.refusal, policy_server.refusal_status = [], "no room", 503
    advance(run, now=at(1))
    assert "no room" in Alert.objects.open().get(kind="publish").text
    policy_server.refusal = ""
    advance(run, now=at(2))
    assert not Alert.objects.open().filter(kind="publish").exists()


def test_a_policy_that_the_server_refuses_fails_the_run(run: Run, policy_server: PolicyServer) -> None:
    policy_server.served, policy_server.refusal = [], "model.safetensors is damaged."
    advance(run, now=at(1))
    run.refresh_from_db()
    assert run.state == "failed"
    assert run.failure == (
        "The policy server refuses policy run: model.safetensors is damaged. If files of it are damaged or missing in "
        "the store, import the same files again: that puts them back. Then start a new run."
    )
    assert not Rollout.objects.undone().exists()
    assert not Alert.objects.open().exists()


def test_a_later_version_that_is_refused_for_good_fails_the_run_too(run: Run, policy_server: PolicyServer) -> None:
    run.checkpoints.create(version=1, kind="grpo", prefix="checkpoints/1")
    Evaluation.objects.update(state="finished")
    run.take_version(1)
    policy_server.refusal = "model.safetensors is damaged."
    advance(run, now=at(1))
    run.refresh_from_db()
    assert (run.state, run.failure) == (
        "failed",
        "The policy server refuses version 1 of checkpoints/1: model.safetensors is damaged. Start a new run.",
    )
    assert run.checkpoints.get(version=1).state == "broken"


def test_a_version_that_is_needed_no_more_may_be_refused(run: Run) -> None:
    run.checkpoints.create(version=1, kind="grpo", prefix="checkpoints/1")
    fail_if_refused(run, {1: "gone"}, now=at(1))
    assert run.state == "running"


def test_what_the_last_step_of_an_ended_run_left_is_deleted(run: Run, store: FolderStore) -> None:
    request = hand_first_step(run)
    store.put(f"{request.write_prefix}/model.safetensors", b"w")
    cancel(run, "ada")
    advance(run, now=at(2))
    assert run.state == "cancelled"
    assert sweep_ended(store, now=at(60)) == 0
    beat("l", kind="learner", now=at(200), holding=[f"{request.step_id}:{request.fence}"])
    assert sweep_ended(store, now=at(200)) == 0
    beat("l", kind="learner", now=at(210))
    assert sweep_ended(store, now=at(210)) == 2
    assert list(store.list(request.write_prefix)) == list(store.list("batches")) == []
    assert sweep_ended(store, now=at(220)) == 0


def test_a_training_without_a_learner_raises_an_alert_until_one_is_there(run: Run) -> None:
    assert Alert.objects.open().filter(kind="no-learner").exists()
    make_worker("learner", now=at(1))
    advance(run, now=at(1))
    assert not Alert.objects.open().filter(kind="no-learner").exists()


def test_a_cancel_lets_in_what_was_recorded_since_the_last_look(run: Run) -> None:
    play(run, ["solved", "unsolved"])
    cancel(run, "ada")
    advance(run, now=at(200))
    assert run.state == "cancelled"
    assert ledger(run).exact


def test_an_ended_run_waits_for_nothing(run: Run) -> None:
    advance(run, now=at(60))
    assert Alert.objects.open().filter(kind="no-sandbox-worker").exists()
    cancel(run, "ada")
    advance(run, now=at(61))
    assert run.state == "cancelled"
    assert not Alert.objects.open().exists()


def test_two_passes_at_once_do_each_thing_once(store: FolderStore, policy_server: PolicyServer) -> None:
    run = make_run(url=policy_server.url)
    make_worker(capacity=50)
    together(lambda: advance(Run.objects.get(pk=run.pk), now=START), 3)
    advance(run, now=at(1))
    assert Rollout.objects.filter(group__purpose="reference").count() == 4
    assert Rollout.objects.filter(group__purpose="evaluation").count() == 6
    assert Attempt.objects.count() == 10


def test_who_finds_somebody_at_a_step_goes_on(store: FolderStore) -> None:
    run = running()
    inner = take_turn(
        run,
        "plan",
        lambda: together(lambda: take_turn(Run.objects.get(pk=run.pk), "plan", lambda: 1, within=states.ACTIVE), 1),
        within=states.ACTIVE,
    )
    assert inner == [None]
    assert take_long_turn(run, "publish", lambda: together(lambda: take_long_turn(run, "publish", lambda: 1), 1)) == [
        None
    ]
    assert take_long_turn(run, "publish", lambda: 1) == 1


def test_a_step_sees_what_another_pass_has_just_changed(store: FolderStore) -> None:
    run = running()
    Run.objects.get(pk=run.pk).take_version(7)
    assert take_turn(run, "feed", lambda: run.policy_version, within=states.ACTIVE) == 7


def test_a_step_is_not_done_for_a_run_that_ended_meanwhile(store: FolderStore) -> None:
    run = running()
    Run.objects.get(pk=run.pk).end("failed", START, reason="broke")
    assert take_turn(run, "feed", lambda: 1, within=states.ACTIVE) is None


def test_a_pass_over_a_long_run_asks_as_little_as_over_a_short_one(run: Run) -> None:
    long = msgspec.structs.replace(CONFIG, sft_steps=0, grpo_steps=1000, max_staleness=50)
    run.revise(long, by="ada", reason="long")
    advance(run, now=at(1))
    few = queries(run)
    for _ in range(12):
        play(run, ["solved", "unsolved"] * 20)
    score_new(run)
    advance(run, now=at(3))
    assert queries(run) <= few + 3


def queries(run: Run) -> int:
    with CaptureQueriesContext(connection) as captured:
        advance(run, now=at(4))
    return len(captured)


def test_the_ledger_sees_an_attempt_that_is_nowhere(run: Run) -> None:
    assert ledger(run).exact
    Attempt.objects.filter(pk=Attempt.objects.earliest("pk").pk).delete()
    assert ledger(run).problems == ("attempts: 10 claimed, 9 accounted for",)
