from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from apps.rollouts.claim import GRACE_SECONDS
from apps.rollouts.models import Attempt, Group, Rollout
from apps.rollouts.plan import plan_groups
from apps.tasks.models import TaskVersion
from tests.apps.factories import START, claim, plan_and_claim, running, together

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store")]


def test_a_claim_raises_the_fence_and_starts_an_attempt() -> None:
    run = running()
    (one,) = plan_and_claim(run, 1)
    rollout = Rollout.objects.get()
    assert (one.fence, one.attempt, one.policy_version) == (1, 1, 0)
    assert (rollout.state, rollout.fence, rollout.attempt, rollout.claimed_at) == ("queued", 1, 1, START)
    assert list(Attempt.objects.values_list("state", "fence", "number")) == [("active", 1, 1)]


def test_the_deadline_leaves_the_task_its_own_time() -> None:
    run = running()
    TaskVersion.objects.update(settings={"agent_seconds": 3600, "verifier_seconds": 300})
    (slow,) = plan_and_claim(run, 1)
    assert slow.deadline == START + timedelta(seconds=GRACE_SECONDS + 3900)
    TaskVersion.objects.update(settings={"agent_seconds": 3600, "verifier_seconds": 300, "build_seconds": 60})
    (built,) = plan_and_claim(run, 1)
    assert built.deadline == START + timedelta(seconds=GRACE_SECONDS + 3960)
    TaskVersion.objects.update(settings={})
    (quick,) = plan_and_claim(run, 1)
    assert quick.deadline == START + timedelta(seconds=GRACE_SECONDS + 180)


@pytest.mark.django_db(transaction=True)
def test_two_claims_at_once_never_take_one_rollout_twice() -> None:
    run = running()
    plan_groups(run, run.task_set.versions("train"), purpose="train", size=10)

    def take() -> list[int]:
        with transaction.atomic():
            return [one.rollout_id for _ in range(4) for one in claim(run, limit=4)]

    first, second = together(take)
    assert not set(first) & set(second)
    assert len(first) + len(second) == Attempt.objects.count() == 32


def test_scripts_come_first_then_evaluations_then_training() -> None:
    run = running()
    tasks = run.task_set.versions("train")[:1]
    plan_groups(run, tasks, purpose="train", size=1)
    plan_groups(run, tasks, purpose="evaluation", size=1, suite="held-out", pinned_version=0)
    plan_groups(run, tasks, purpose="reference", size=1, script="reference")
    purposes = [Group.objects.get(pk=one.group_id).purpose for _ in range(3) for one in claim(run, limit=1)]
    assert purposes == ["reference", "evaluation", "train"]


def test_a_version_that_is_not_served_is_not_claimed() -> None:
    run = running()
    tasks = run.task_set.versions("train")[:1]
    plan_groups(run, tasks, purpose="train", size=1)
    plan_groups(run, tasks, purpose="evaluation", size=1, suite="held-out", pinned_version=7)
    plan_groups(run, tasks, purpose="reference", size=1, script="reference")
    assert [one.policy_version for one in claim(run, versions=[])] == [None]
    assert [one.policy_version for one in claim(run, versions=[7])] == [7]
    assert [one.policy_version for one in claim(run, versions=[0])] == [0]


def test_no_more_are_claimed_than_asked() -> None:
    run = running()
    plan_groups(run, run.task_set.versions("train"), purpose="train", size=2)
    assert [len(claim(run, limit=limit)) for limit in (3, 0, -1)] == [3, 0, 0]


def test_a_rollout_has_one_active_attempt_and_each_fence_once() -> None:
    run = running()
    plan_and_claim(run, 1)
    attempt = Attempt.objects.get()
    attempt.pk = None
    with pytest.raises(IntegrityError, match="attempt_fence"), transaction.atomic():
        attempt.save()
    attempt.fence = 2
    with pytest.raises(IntegrityError, match="attempt_one_active"), transaction.atomic():
        attempt.save()


def test_a_group_has_a_known_purpose_and_each_index_once() -> None:
    run = running()
    plan_and_claim(run, 1)
    with pytest.raises(IntegrityError, match="group_purpose"), transaction.atomic():
        Group.objects.update(purpose="fun")
    with pytest.raises(IntegrityError, match="rollout_index"), transaction.atomic():
        Rollout.objects.create(run=run, group=Group.objects.get(), index=0)
