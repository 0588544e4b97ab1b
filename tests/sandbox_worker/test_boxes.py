"""Boxes are leased to attempts through the pool: cancelled while they wait, stopped in any case, counted."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sandbox_worker.attempt import Attempt, AttemptCancelledError
from sandbox_worker.boxes import Boxes, BoxUse, box_spec
from sandbox_worker.errors import BoundaryError
from sandbox_worker.sandbox.base import BoxSpec, BoxStartError, SandboxError
from sandbox_worker.sandbox.pool import WarmPool
from sandbox_worker.sandbox.starts import StartLimiter
from tests.sandbox_worker.factories import rollout_request
from tests.sandbox_worker.sandbox.idle_boxes import IdleBackend, IdleBox
from tests.sandbox_worker.sandbox.test_starts import until


@contextmanager
def boxes_of(backend: IdleBackend, *, at_once: int = 4, most: int = 0) -> Iterator[Boxes]:
    pool = WarmPool(backend, StartLimiter(at_once), most=most)
    try:
        yield Boxes(pool)
    finally:
        pool.close()


def attempt_of(number: int = 1, seconds: float = 60.0) -> Attempt:
    return Attempt(rollout_request(("key", "digest"), rollout_id=number, deadline=time.time() + seconds))


def lease_and_let_go(boxes: Boxes, attempt: Attempt, use: BoxUse | None = None) -> None:
    with boxes.lease(box_spec(attempt, "/app", ()), attempt, use or BoxUse()):
        return


def counted(boxes: Boxes, name: str) -> float:
    return boxes.report().counters[name]


def test_a_lease_carries_run_rollout_and_attempt_and_stops_its_box() -> None:
    backend = IdleBackend()
    with boxes_of(backend) as boxes:
        lease_and_let_go(boxes, attempt_of(5))
        assert [(box.label, box.stopped) for box in backend.started] == [("7.5.1", True)]
        assert counted(boxes, "boxes_started") == 1


def test_the_agents_box_and_the_graders_are_of_one_kind() -> None:
    backend = IdleBackend()
    with boxes_of(backend, most=4) as boxes:
        attempt = attempt_of()
        with boxes.lease(box_spec(attempt, "/app", (("A", "1"),)), attempt, BoxUse()):
            until(lambda: boxes.report().warm)
        with boxes.lease(box_spec(attempt, "/app", (("TESTS", "1"),)), attempt, BoxUse()) as box:
            assert isinstance(box, IdleBox)
            assert dict(box.env)["TESTS"] == "1"
            assert "A" not in dict(box.env)
        assert counted(boxes, "pool_hits") == 1


def test_an_attempt_that_is_cancelled_leaves_the_queue_of_starts_at_once() -> None:
    may_go_on = threading.Event()

    def slowly(_: BoxSpec) -> None:
        may_go_on.wait(10)

    with boxes_of(IdleBackend(slowly), at_once=1) as boxes:
        first = threading.Thread(target=lease_and_let_go, args=(boxes, attempt_of()))
        first.start()
        until(lambda: counted(boxes, "starts_now") == 1)
        attempt, use = attempt_of(2), BoxUse()
        threading.Timer(0.05, attempt.cancel).start()
        with pytest.raises(AttemptCancelledError):
            lease_and_let_go(boxes, attempt, use)
        assert (use.failures, counted(boxes, "starts_waiting")) == (0, 0)
        may_go_on.set()
        first.join()
        assert counted(boxes, "boxes_failed") == 0


def test_an_attempt_whose_deadline_passes_in_the_queue_says_so() -> None:
    may_go_on = threading.Event()

    def slowly(_: BoxSpec) -> None:
        may_go_on.wait(10)

    with boxes_of(IdleBackend(slowly), at_once=1) as boxes:
        first = threading.Thread(target=lease_and_let_go, args=(boxes, attempt_of()))
        first.start()
        until(lambda: counted(boxes, "starts_now") == 1)
        with pytest.raises(BoundaryError, match="worker: the deadline of the attempt passed"):
            lease_and_let_go(boxes, attempt_of(2, seconds=0.05))
        may_go_on.set()
        first.join()


def test_a_box_that_does_not_start_is_a_failure_of_ours() -> None:
    def refuse(_: BoxSpec) -> None:
        raise BoxStartError("no")

    use = BoxUse()
    with boxes_of(IdleBackend(refuse)) as boxes:
        with pytest.raises(BoundaryError, match="box: BoxStartError: no"):
            lease_and_let_go(boxes, attempt_of(), use)
        assert (use.failures, counted(boxes, "boxes_failed"), counted(boxes, "boxes_started")) == (1, 1, 0)


def test_a_box_that_does_not_stop_is_the_reapers_and_the_attempt_keeps_its_outcome() -> None:
    backend = IdleBackend()
    with boxes_of(backend) as boxes:
        attempt = attempt_of()
        with boxes.lease(box_spec(attempt, "/app", ()), attempt, BoxUse()):
            backend.started[0].stops_badly = 1
        assert counted(boxes, "boxes_unstopped") == 1
        boxes.reap()
        assert (backend.started[0].stopped, counted(boxes, "boxes_unstopped")) == (True, 0)


def test_a_reaper_that_breaks_tries_again() -> None:
    class Broken(IdleBackend):
        def reap(self) -> int:
            raise SandboxError("no")

    with boxes_of(Broken()) as boxes:
        boxes.reap()
        assert counted(boxes, "boxes_reaped") == 0
