from datetime import datetime

import msgspec
import pytest

from apps.alerts.models import Alert
from apps.buffer.admit import admit_groups
from apps.buffer.cut import cut_batch
from apps.buffer.models import Batch
from apps.fleet.models import Worker
from apps.lifecycle.models import Transition
from apps.pipeline.learn import all_flat, ended_by, grpo_seconds, settle_training
from apps.pipeline.look_after import watch
from apps.pipeline.plan import plan_rollouts, room_ahead
from apps.pipeline.waiting import Waiting, waiting
from apps.rewards.score import score_new
from apps.rollouts.models import Group, Rollout
from apps.rollouts.plan import plan_groups
from apps.runs.config import RunConfig
from apps.runs.models import Run
from apps.training.models import LearnerStep
from tests.apps.factories import CONFIG, START, at, claim, make_run, make_worker, play, running
from wire.store import FolderStore

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def training(**changes: int) -> Run:
    run = running(msgspec.structs.replace(CONFIG, sft_steps=0, **changes))
    run.evaluations.create(version=0, suite="held-out", tries=1, why="first", state="finished")
    return run


def plan(run: Run) -> int:
    return plan_rollouts(run, run.config)


def in_step(run: Run) -> Batch:
    return Batch.objects.create(run=run, kind="grpo", base_version=0, groups=1, sequences=1, tokens=0, state="handed")


@pytest.mark.parametrize(("eta", "idle", "stepping"), [(0, 2, 0), (1, 4, 2), (2, 6, 4)])
def test_rollouts_run_ahead_of_the_learner_by_the_bound(eta: int, idle: int, stepping: int) -> None:
    run = training(max_staleness=eta, grpo_steps=100)
    assert room_ahead(run, run.config) == idle
    in_step(run)
    assert room_ahead(run, run.config) == stepping


def test_what_waits_takes_room() -> None:
    run = training(max_staleness=1)
    assert plan(run) == 4
    assert plan(run) == 0
    Group.objects.filter(pk=Group.objects.earliest("pk").pk).update(state="dropped")
    assert plan(run) == 1


def test_nothing_is_planned_past_the_last_step() -> None:
    run = training(max_staleness=5, grpo_steps=1)
    assert room_ahead(run, run.config) == 2


def test_nothing_is_planned_before_the_first_measure() -> None:
    run = training()
    run.evaluations.update(state="running")
    assert plan(run) == 0


def test_traces_are_planned_once_and_some_of_each_family() -> None:
    run = running(msgspec.structs.replace(CONFIG, sft_traces_per_family=1))
    assert [plan(run), plan(run)] == [2, 0]
    assert set(Group.objects.values_list("purpose", "script", "size")) == {("reference", "reference", 1)}


@pytest.mark.parametrize("state", ["paused", "cancelling"])
def test_a_run_that_does_not_dispatch_plans_nothing(state: str) -> None:
    run = training()
    run.move(state)
    assert plan(run) == 0


def test_a_budget_of_seconds_runs_from_the_first_training_claim() -> None:
    run = training(max_seconds=60)
    plan_groups(run, run.task_set.versions("train")[:1], purpose="train", size=1)
    assert grpo_seconds(run, at(50)) == 0
    claim(run, now=START)
    assert ended_by(run, run.config, now=at(59)) == ""
    assert ended_by(run, run.config, now=at(60)) == "the budget of 60 s of GRPO is used after 0 steps"


def test_when_training_ends_what_waits_is_put_away() -> None:
    run = training(max_seconds=60)
    play(run, ["solved", "unsolved"])
    plan(run)
    settle(run, at(61))
    assert run.training_ended
    assert set(Group.objects.values_list("state", "dropped_reason")) == {("dropped", "run ended")}
    assert set(Rollout.objects.values_list("state", flat=True)) == {"recorded", "cancelled"}
    assert not Rollout.objects.filter(state="cancelled", finished_at=None).exists()


def test_training_does_not_end_while_a_step_is_made() -> None:
    run = training(max_seconds=60)
    plan_groups(run, run.task_set.versions("train")[:1], purpose="train", size=1)
    claim(run, now=START)
    batch = in_step(run)
    settle(run, at(61))
    assert not run.training_ended
    batch.move("returned")
    settle(run, at(62))
    assert run.training_ended


def settle(run: Run, now: datetime) -> None:
    settle_training(run, run.config, now=now)


def test_an_evaluation_run_ends_its_training_at_once() -> None:
    run = running(RunConfig(grpo_steps=1))
    Run.objects.update(kind="evaluation")
    run.refresh_from_db()
    settle(run, START)
    assert run.training_ended == "evaluation only"


def test_it_says_who_waits_on_whom() -> None:
    run = training()
    plan(run)
    assert waiting(run, START).on == "sandbox worker"
    make_worker()
    claim(run)
    found = waiting(run, START)
    assert (found.on, found.healthy) == ("learner", False)
    assert alerts(run) == {"no-learner": found.sentence}
    make_worker("learner")
    assert waiting(run, START).sentence == "The learner waits for graded groups."
    run.move("paused")
    assert waiting(run, START).sentence.startswith("Paused.")


def test_a_run_without_a_sandbox_worker_says_which_host_refused_and_why() -> None:
    run = training()
    plan(run)
    words = "This host cannot isolate: no control group can be made. Run the worker as root."
    make_worker(host="node-r", leaving=True, capacity=0, refused=words)
    found = waiting(run, START)
    told = f"Rollouts wait for a sandbox worker, and node-r cannot run one. {words} Then start its worker again."
    assert found.sentence == told
    assert alerts(run)["no-sandbox-worker"] == found.sentence
    make_worker()
    assert waiting(run, START).on != "sandbox worker"
    assert "no-sandbox-worker" not in alerts(run)


def test_a_training_whose_groups_are_all_flat_is_said_to_learn_nothing(store: FolderStore) -> None:
    run = training()
    make_worker()
    make_worker("learner")
    for number in range(4):
        assert waiting(run, START).healthy, number
        assert not alerts(run)
        for verdict in ("solved", "unsolved"):
            play(run, [verdict, verdict])
        score_new(run)
        admit_groups(run, live_versions={0})
        assert cut_batch(run, run.config, store, live_versions={0}) is None
    found = waiting(run, START)
    assert (found.on, found.healthy) == ("tasks", False)
    assert found.sentence.startswith("The last 8 groups were all flat")
    assert "Try a warm start, easier tasks" in found.sentence
    assert "Try easier tasks" in all_flat(run, msgspec.structs.replace(run.config, sft_steps=2)), "it had one"
    assert alerts(run) == {"all-flat": found.sentence}
    run.end_training("enough")
    assert not alerts(run)


def alerts(run: Run) -> dict[str, str]:
    watch(run, now=START)
    return dict(Alert.objects.open().values_list("kind", "text"))


def test_two_learners_at_once_are_told_of() -> None:
    run = training()
    make_worker("learner")
    assert not alerts(run)
    second = make_worker("learner")
    assert alerts(run)["many-learners"].startswith("2 learners answer, and only one may")
    Worker.objects.filter(pk=second.pk).update(gone_at=START)
    assert not alerts(run)


def test_a_step_that_the_store_keeps_from_its_end_is_told_of(store: FolderStore) -> None:
    run = training()
    make_worker("learner")
    step = LearnerStep.objects.create(
        run=run, batch=in_step(run), kind="grpo", number=1, parent_version=0, version=1, handed_at=START, sent_at=START
    )
    assert waiting(run, START).healthy
    step.note_trouble("The learner cannot write checkpoint 1: No space left on device")
    sentence = (
        "The learner cannot write checkpoint 1: No space left on device. "
        f"Make room on the disk of the store ({store.root}); it tries again by itself."
    )
    assert waiting(run, START) == Waiting("learner", "object store", sentence, healthy=False)
    assert alerts(run) == {"learner-store": sentence}


def test_a_queued_run_waits_for_the_next_look() -> None:
    assert waiting(make_run(), START).sentence == "Queued: it starts when the pipeline looks next."


def test_rollouts_are_said_to_wait_for_a_version_that_is_not_served() -> None:
    run = training()
    make_worker()
    plan(run)
    assert run.endpoint is not None
    run.endpoint.note(healthy=True, error="", served=["9@9"], now=START)
    run.checkpoints.create(version=0, kind="base", prefix="p", made_at=START)
    sentence = "Rollouts wait for the policy server to serve version 0."
    assert waiting(run, START) == Waiting("rollouts", "policy server", sentence, healthy=True)
    make_worker(incarnation="late", now=at(60))
    assert not waiting(run, at(60)).healthy
    Alert.settle(run, "publish", "refused", START)
    assert not waiting(run, START).healthy
    run.endpoint.note(healthy=True, error="", served=[run.served_name(0)], now=START)
    assert waiting(run, START).on != "policy server"


def test_paused_time_is_not_in_the_budget_of_seconds() -> None:
    run = training(max_seconds=60)
    plan_groups(run, run.task_set.versions("train")[:1], purpose="train", size=1)
    claim(run, now=START)
    for seconds, before, after in [(10, "running", "paused"), (40, "paused", "running"), (70, "running", "paused")]:
        Transition.objects.create(
            subject="run", subject_id=run.pk, before=before, after=after, actor="ada", at=at(seconds)
        )
    assert grpo_seconds(run, at(30)) == 10
    assert grpo_seconds(run, at(60)) == 30
    assert grpo_seconds(run, at(500)) == 40
    assert ended_by(run, run.config, now=at(500)) == ""
