import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from sandbox_worker.messages import SegmentReady
from tests.sandbox_worker.factories import batch_of, put_task, rollout_request, task_files
from tests.sandbox_worker.processes import Broker, Control, WorkerProcess, closing, until
from wire.incarnation import Orders
from wire.store import FolderStore

pytestmark = [pytest.mark.process, pytest.mark.sandbox]

SEGMENT_READY = "trajectories.segment_ready"


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    with closing(made):
        yield made


@pytest.fixture
def control(broker: Broker, store: FolderStore) -> Iterator[Control]:
    made = Control(broker, store)
    with closing(made):
        yield made


def sleepy(store: FolderStore, seconds: float) -> tuple[str, str]:
    """A task whose own solution takes its time."""
    return put_task(store, task_files(solution__solve_DOTsh=f"sleep {seconds}; touch done\n"))


def ready(worker: WorkerProcess, control: Control) -> str:
    """The incarnation of a worker that sent its first heartbeat."""
    until(lambda: any(beat.pid == worker.process.pid for beat in control.heartbeats()), what=worker.log)
    return next(beat.incarnation for beat in control.heartbeats() if beat.pid == worker.process.pid)


def running(worker: WorkerProcess, boxes: int = 1) -> None:
    until(lambda: len(worker.leased()) >= boxes, what="no box started")


def test_a_batch_becomes_segments_and_then_messages(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log")
    with closing(worker):
        incarnation = ready(worker, control)
        task = put_task(store)
        control.send(batch_of(*(rollout_request(task, rollout_id=number) for number in range(8))))
        until(lambda: len(control.outcomes()) == 8, what=worker.log)
        assert {outcome.grade.verdict for outcome in control.outcomes()} == {"solved"}
        until(lambda: sum(reply["outcomes"] for reply in control.replies(SEGMENT_READY)) == 8)
        replies = [msgspec.convert(reply, SegmentReady) for reply in control.replies(SEGMENT_READY)]
        assert {reply.key for reply in replies} == set(store.list("outcomes/7"))
        assert {reply.incarnation for reply in replies} == {incarnation}
        assert worker.end() == 0
        last = control.heartbeats()[-1]
        assert last.leaving
        assert (last.counters["boxes_started"], last.counters["outcomes_written"], last.busy) == (16, 8, 0)
        assert last.counters["pool_hits"] + last.counters["pool_misses"] == 16


def test_a_worker_that_has_played_keeps_boxes_warm_and_tells_of_them(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log", ASSAY_WARM_BOXES="2")
    with closing(worker):
        control.send(batch_of(*(rollout_request(put_task(store), rollout_id=number) for number in range(4))))
        until(lambda: len(control.outcomes()) == 4, what=worker.log)
        until(lambda: any(sum(beat.warm.values()) == 2 for beat in control.heartbeats()), what=worker.log)
        assert len({path.name for path in worker.groups()}) == 2
        assert worker.leased() == []
        assert worker.end() == 0
        assert worker.groups() == []


def test_a_doubled_message_is_played_once(control: Control, broker: Broker, store: FolderStore, tmp_path: Path) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log")
    with closing(worker):
        batch = batch_of(rollout_request(put_task(store)))
        for _ in range(3):
            control.send(batch)
        until(lambda: control.outcomes())
        worker.end()
    assert len(control.outcomes()) == 1


def test_a_bad_batch_is_refused_and_the_next_is_played(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log")
    with closing(worker):
        good = batch_of(rollout_request(put_task(store)))
        control.send(msgspec.to_builtins(good) | {"run_id": "seven"})
        control.send(good)
        until(lambda: control.outcomes(), what=worker.log)
        assert worker.said("batch refused: Expected `int`, got `str` - at `$.run_id`")


def test_a_stopped_worker_leaves_no_process_and_no_group(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log")
    with closing(worker):
        task = sleepy(store, 60)
        control.send(batch_of(*(rollout_request(task, rollout_id=number) for number in range(4))))
        running(worker, boxes=4)
        below = worker.below()
        assert worker.end(signal.SIGTERM, seconds=10) == 0
        assert worker.groups() == []
        assert [process for process in below if alive(process)] == []
    assert control.outcomes() == []
    assert control.heartbeats()[-1].leaving


def test_a_killed_worker_is_reaped_by_the_next(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker, successor = WorkerProcess(broker, store, tmp_path / "log"), None
    with closing(worker):
        task = sleepy(store, 60)
        control.send(batch_of(*(rollout_request(task, rollout_id=number) for number in range(2))))
        running(worker, boxes=2)
        below = worker.below()
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        successor = WorkerProcess(broker, store, tmp_path / "log2")
        with closing(successor):
            ready(successor, control)
            until(lambda: worker.groups() == [])
            until(lambda: not any(alive(process) for process in below))
            control.send(batch_of(rollout_request(put_task(store), rollout_id=9)))
            until(lambda: len(control.outcomes()) == 1)


def alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_outcomes_reach_the_store_without_a_broker(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log")
    with closing(worker):
        control.send(batch_of(rollout_request(sleepy(store, 2))))
        running(worker)
        broker.kill()
        until(lambda: control.outcomes(), what=worker.log)
        broker.start()
        control.send(batch_of(rollout_request(put_task(store), rollout_id=2)))
        until(lambda: len(control.outcomes()) == 2, what="not reconnected")
        assert worker.process.poll() is None


def test_an_order_cancels_a_rollout_and_nothing_of_it_is_written(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log")
    with closing(worker):
        incarnation = ready(worker, control)
        control.send(batch_of(rollout_request(sleepy(store, 60)), rollout_request(put_task(store), rollout_id=2)))
        until(lambda: len(control.outcomes()) == 1)
        control.order(incarnation, Orders(cancelled=frozenset({"1:1"})))
        until(lambda: worker.leased() == [], seconds=5)
        worker.end()
        assert control.heartbeats()[-1].counters["rollouts_cancelled"] == 1
    assert [outcome.rollout_id for outcome in control.outcomes()] == [2]


def test_a_draining_worker_finishes_and_leaves_the_rest_to_others(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log")
    with closing(worker):
        incarnation = ready(worker, control)
        control.send(batch_of(rollout_request(sleepy(store, 1.5))))
        running(worker)
        control.order(incarnation, Orders(drain=True))
        until(lambda: worker.said("draining"))
        time.sleep(1.5)
        control.send(batch_of(rollout_request(put_task(store), rollout_id=2)))
        until(lambda: len(control.outcomes()) == 1)
        time.sleep(1.0)
        assert len(control.outcomes()) == 1
        other = WorkerProcess(broker, store, tmp_path / "log2")
        with closing(other):
            until(lambda: len(control.outcomes()) == 2, what=other.log)
        control.order(incarnation, Orders())
        control.send(batch_of(rollout_request(put_task(store), rollout_id=3)))
        until(lambda: len(control.outcomes()) == 3, what="still draining")


NO_GROUPS = ("unshare", "--mount", "bash", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "worker")


def test_a_worker_tells_what_it_found_of_its_host(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log")
    with closing(worker):
        ready(worker, control)
        first = control.heartbeats()[0]
        assert {row.name for row in first.findings if row.about == "bubblewrap"} >= {"memory", "cpu", "network"}
        assert any(str(store.root) in row.found for row in first.findings if row.name == "disk")
        assert "missing" not in {row.state for row in first.findings}


def test_a_host_that_cannot_isolate_is_refused_and_the_control_plane_told_why(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log", before=NO_GROUPS)
    with closing(worker):
        assert worker.process.wait(30) == 78
        (beat,) = control.heartbeats()
        assert (beat.kind, beat.capacity, beat.leaving) == ("sandbox", 0, True)
        assert beat.refused.startswith("This host cannot isolate: no control group can be made")
        assert {row.name for row in beat.findings if row.state == "missing"} >= {"control groups", "boxes"}
        assert time.time() - beat.examined_at < 60
        assert worker.log.read_text().count(beat.refused) == 1


def test_a_host_that_cannot_isolate_is_refused_without_a_broker_too(
    broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    broker.kill()
    worker = WorkerProcess(broker, store, tmp_path / "log", before=NO_GROUPS)
    with closing(worker):
        assert worker.process.wait(30) == 78
        assert worker.said("This host cannot isolate")
        assert not worker.said("Traceback")


def test_a_missing_variable_is_named(broker: Broker, store: FolderStore, tmp_path: Path) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log", ASSAY_STORE_URL="")
    with closing(worker):
        assert worker.process.wait(30) != 0
        assert worker.said("ASSAY_STORE_URL is not set")


def test_a_worker_without_a_broker_stops_too(
    control: Control, broker: Broker, store: FolderStore, tmp_path: Path
) -> None:
    worker = WorkerProcess(broker, store, tmp_path / "log")
    with closing(worker):
        control.send(batch_of(rollout_request(sleepy(store, 60))))
        running(worker)
        broker.kill()
        time.sleep(1.0)
        worker.end(signal.SIGTERM, seconds=15)
        assert worker.groups() == []
