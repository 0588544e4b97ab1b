import hashlib

import msgspec
import pytest

from apps.rollouts.models import Rollout
from apps.trajectories.jobs import record_segment
from apps.trajectories.record import DamagedSegmentError
from sandbox_worker.messages import SegmentReady
from tests.apps.factories import drain_queue, make_outcome, plan_and_claim, running, segment_of, write_segment

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("store", "queues")]


def tell(key: str, run_id: int, sha256: str) -> None:
    ready = SegmentReady(run_id=run_id, key=key, sha256=sha256, incarnation="worker", outcomes=1)
    record_segment(msgspec.to_builtins(ready))


def test_a_message_has_its_segment_recorded_and_the_run_looked_at() -> None:
    run = running()
    outcomes = [make_outcome(one, run.pk) for one in plan_and_claim(run, 1)]
    key = write_segment(run, outcomes)
    tell(key, run.pk, hashlib.sha256(segment_of(outcomes)).hexdigest())
    tell(key, run.pk, "")
    assert Rollout.objects.get().state == "recorded"
    assert [str(argument) for argument in drain_queue("control")] == [str(run.pk)]


def test_a_message_that_names_another_hash_is_loud_and_changes_nothing() -> None:
    run = running()
    key = write_segment(run, [make_outcome(one, run.pk) for one in plan_and_claim(run, 1)])
    with pytest.raises(DamagedSegmentError):
        tell(key, run.pk, "0" * 64)
    assert Rollout.objects.get().state == "queued"
