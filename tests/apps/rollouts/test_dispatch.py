import msgspec
import pytest
from django.db import transaction

from apps.rollouts.dispatch import dispatch_rollouts
from apps.rollouts.models import Rollout
from apps.rollouts.plan import plan_groups
from apps.runs.models import Run
from sandbox_worker.messages import PolicyCall, RolloutBatch
from tests.apps.factories import CONFIG, START, at, drain_queue, make_worker, running

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("store", "queues")]


def planned(count: int, *, name: str = "run", concurrency: int = 100) -> Run:
    run = running(msgspec.structs.replace(CONFIG, concurrency=concurrency), name=name)
    plan_groups(run, run.task_set.versions("train")[:1], purpose="train", size=count)
    return run


def test_requests_go_out_in_messages_of_thirty_two() -> None:
    run = planned(40)
    make_worker(capacity=50)
    assert dispatch_rollouts(run, live_versions={0}, now=START) == 40
    batches = [msgspec.convert(message, RolloutBatch) for message in drain_queue("rollouts")]
    assert [len(batch.requests) for batch in batches] == [32, 8]
    calls = [request.policy for batch in batches for request in batch.requests]
    assert all(isinstance(call, PolicyCall) and call.model == f"{run.pk}@0" for call in calls)
    assert len({call.sampling.seed for call in calls if isinstance(call, PolicyCall)}) == 40


def test_nothing_goes_out_before_the_claim_is_committed() -> None:
    run = planned(2)
    make_worker()
    with transaction.atomic():
        dispatch_rollouts(run, live_versions={0}, now=START)
        assert drain_queue("rollouts") == []
    assert len(drain_queue("rollouts")) == 1


def test_no_more_are_in_flight_than_the_run_allows() -> None:
    run = planned(10, concurrency=3)
    make_worker()
    assert [dispatch_rollouts(run, live_versions={0}, now=START) for _ in range(2)] == [3, 0]


def test_no_more_are_in_flight_than_the_workers_can_take_soon() -> None:
    run = planned(10)
    make_worker(capacity=2)
    make_worker(capacity=8, now=at(-60))  # suspect
    assert dispatch_rollouts(run, live_versions={0}, now=START) == 4


def test_runs_share_the_workers() -> None:
    runs = [planned(10, name="one"), planned(10, name="two")]
    make_worker(capacity=4)
    assert [dispatch_rollouts(run, live_versions={0}, now=START) for run in runs] == [4, 4]


def test_a_paused_run_sends_nothing() -> None:
    run = planned(2)
    make_worker()
    run.move("paused")
    assert dispatch_rollouts(run, live_versions={0}, now=START) == 0
    assert set(Rollout.objects.values_list("state", flat=True)) == {"planned"}
