import msgspec
import pytest
from django.db import IntegrityError, transaction

from apps.evaluation.collect import evaluation_tries
from apps.evaluation.compare import compare
from apps.evaluation.models import Evaluation
from apps.evaluation.plan import best_version, cancel_evaluations, due_evaluation, pinned_versions, plan_evaluations
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from tests.apps.checkpoints.test_retain import make_step
from tests.apps.factories import CONFIG, START, at, claim, make_outcome, record, running
from wire.store import FolderStore

pytestmark = pytest.mark.django_db
GRPO = msgspec.structs.replace(CONFIG, sft_steps=0)


def step(run: Run, store: FolderStore, version: int, kind: str = "grpo") -> None:
    made = make_step(run, store, version)
    type(made).objects.filter(pk=made.pk).update(kind=kind)
    run.take_version(version)


def due(run: Run) -> tuple[int, str] | None:
    found = due_evaluation(run, run.config)
    return (found.version, found.why) if found else None


def plan(run: Run, seconds: float = 0) -> list[tuple[int, str]]:
    """The held-out evaluations after one look."""
    plan_evaluations(run, run.config, now=at(seconds))
    rows = Evaluation.objects.of(run).filter(suite="held-out").order_by("version")
    return list(rows.values_list("version", "state"))


def finish(run: Run, *, solved: bool = True) -> None:
    """Play all that is planned."""
    while claims := claim(run, versions=range(100)):
        verdict = "solved" if solved else "unsolved"
        record(run, [make_outcome(one, run.pk, verdict, version=one.policy_version) for one in claims])


def test_evaluations_are_due_first_warm_every_k_and_last(store: FolderStore) -> None:
    run = running()
    seen = [due(run)]
    plan(run)
    for version in range(1, 7):
        step(run, store, version, "sft" if version <= 2 else "grpo")
        seen.append(due(run))
        plan(run)
    run.end_training("all done")
    Evaluation.objects.filter(version=6).delete()
    seen.append(due(run))
    assert seen == [(0, "first"), None, (2, "warm"), None, (4, "interim"), None, None, (6, "last")]


def test_every_try_is_pinned_to_the_version(store: FolderStore) -> None:
    run = running(GRPO)
    plan(run)
    groups = Group.objects.of(run).values_list("suite", "pinned_version", "size")
    assert sorted(groups) == [("held-out", 0, 2), ("held-out", 0, 2), ("unseen", 0, 2)]
    assert pinned_versions(run) == {0}
    run.take_version(5)
    assert {one.policy_version for one in claim(run, versions=[0, 5])} == {0}


def test_one_runs_at_a_time_and_the_next_waits(store: FolderStore) -> None:
    run = running(GRPO)
    plan(run)
    step(run, store, 1)
    step(run, store, 2)
    assert plan(run) == [(0, "running"), (2, "planned")]
    assert pinned_versions(run) == {0, 2}
    finish(run)
    assert plan(run) == [(0, "finished"), (2, "running")]


def test_one_that_has_not_begun_is_superseded_and_keeps_its_row(store: FolderStore) -> None:
    run = running(GRPO)
    plan(run)
    for version in range(1, 4):
        step(run, store, version)
        plan(run)
    run.end_training("a budget")
    assert plan(run) == [(0, "running"), (2, "superseded"), (3, "planned")]


def test_the_superseded_comes_back_when_its_version_is_the_newest_again(store: FolderStore) -> None:
    run = running(GRPO)
    plan(run)
    for version in range(1, 4):
        step(run, store, version)
        plan(run)
    run.steps.filter(version__gt=2).update(state="rewound")
    Evaluation.objects.filter(version=2).update(state="superseded")
    run.take_version(2)
    run.end_training("a budget")
    assert plan(run)[1] == (2, "planned")
    assert Evaluation.objects.get(version=2, suite="held-out").why == "last"


def test_looking_twice_plans_once(store: FolderStore) -> None:
    run = running(GRPO)
    plan(run)
    plan(run)
    assert Rollout.objects.count() == 6
    with pytest.raises(IntegrityError, match="evaluation_once"), transaction.atomic():
        Evaluation.objects.create(run=run, version=0, suite="unseen", tries=1, why="first")


def test_a_finished_evaluation_has_its_numbers(store: FolderStore) -> None:
    run = running(GRPO)
    plan(run)
    finish(run)
    plan(run, 9)
    found = Evaluation.objects.get(suite="held-out")
    assert (found.tasks, found.started, found.solved, found.estimate, found.finished_at) == (2, 4, 4, 1.0, at(9))
    assert best_version(run) == 0


def test_a_parked_try_is_unsolved_in_the_first_denominator_only(store: FolderStore) -> None:
    run = running(GRPO)
    plan(run)
    claims = claim(run)
    parked, others = claims[0], claims[1:]
    record(run, [make_outcome(one, run.pk) for one in others])
    for attempt in range(3):
        record(run, [make_outcome(parked, run.pk, "none")])
        parked = (claim(run) or [parked])[0] if attempt < 2 else parked
    plan(run)
    found = Evaluation.objects.get(suite="held-out")
    assert (found.started, found.reached_verdict, found.solved) == (4, 3, 3)
    assert (found.attempts, found.infra) == (6, 3)
    assert found.estimate == pytest.approx(0.75)
    assert found.result["valid"]["estimate"] == pytest.approx(1.0)
    assert found.result["infra"]["estimate"] == pytest.approx((3 / 4 + 0) / 2)


def test_a_try_that_broke_and_was_tried_again_counts_by_its_last_attempt(store: FolderStore) -> None:
    run = running(GRPO)
    plan(run)
    claims = claim(run)
    record(run, [make_outcome(claims[0], run.pk, "none"), *(make_outcome(one, run.pk) for one in claims[1:])])
    finish(run)
    tries = evaluation_tries(run, 0, "held-out")
    assert sorted((one.verdict, one.attempts, one.broken) for one in tries) == [("solved", 1, 0)] * 3 + [
        ("solved", 2, 1)
    ]


def test_versions_are_compared_task_by_task(store: FolderStore) -> None:
    run = running(GRPO)
    plan(run)
    finish(run, solved=False)
    plan(run)
    for version in (1, 2):
        step(run, store, version)
    plan(run)
    finish(run)
    plan(run)
    after, before = (Evaluation.objects.get(version=version, suite="held-out") for version in (2, 0))
    assert compare(after, before).interval.estimate == 1.0
    assert best_version(run) == 2


def test_a_cancel_closes_what_is_open(store: FolderStore) -> None:
    run = running(GRPO)
    plan(run)
    cancel_evaluations(run)
    assert plan(run) == [(0, "cancelled")]
    assert START == at(0)


def measured_twice(store: FolderStore) -> Run:
    """A run whose first evaluation is finished, and one at version 2 planned."""
    run = running(GRPO)
    plan(run)
    finish(run)
    for version in (1, 2):
        step(run, store, version)
    plan(run)
    return run


def test_an_interim_evaluation_at_the_last_version_is_topped_up(store: FolderStore) -> None:
    run = measured_twice(store)
    finish(run)
    assert plan(run, 5)[-1] == (2, "finished")
    run.end_training("a budget")
    assert plan(run, 6)[-1] == (2, "running")
    plan(run, 7)
    finish(run, solved=False)
    assert plan(run, 9)[-1] == (2, "finished")
    last = Evaluation.objects.get(version=2, suite="held-out")
    assert (last.why, last.tries, last.tasks, last.started, last.solved) == ("last", 2, 2, 4, 2)
    assert (last.estimate, last.finished_at) == (0.5, at(9))
    assert Group.objects.of(run).filter(pinned_version=2, suite="unseen").count() == 2
    assert plan(run, 10)[-1] == (2, "finished")


def test_one_that_runs_when_training_ends_gets_the_missing_tries_at_once(store: FolderStore) -> None:
    run = measured_twice(store)
    run.end_training("a budget")
    plan(run)
    finish(run)
    plan(run)
    last = Evaluation.objects.get(version=2, suite="held-out")
    assert (last.state, last.why, last.tries, last.started) == ("finished", "last", 2, 4)
