import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sandbox_worker.attempt import Attempt
from sandbox_worker.engine import Engine, EngineClosedError
from sandbox_worker.messages import Outcome, RolloutRequest
from sandbox_worker.outcomes import Address
from tests.sandbox_worker.factories import batch_of, rollout_request
from tests.sandbox_worker.test_outcomes import outcome, until


def request(rollout_id: int = 1, fence: int = 1) -> RolloutRequest:
    return rollout_request(("k", "d"), rollout_id=rollout_id, fence=fence)


class Desk:
    """Collects what an engine delivers; its rollouts wait for the gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.running = 0
        self.most_running = 0
        self.lock = threading.Lock()
        self.delivered: list[int] = []

    def play(self, attempt: Attempt) -> Outcome | None:
        with self.lock:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        with attempt.holding(self.gate.set):
            self.gate.wait(10)
        with self.lock:
            self.running -= 1
        if attempt.request.rollout_id == 13:
            raise ValueError("unlucky")
        return outcome(attempt.request.rollout_id)

    def deliver(self, address: Address, delivered: Outcome) -> None:
        self.delivered.append(delivered.rollout_id)


@contextmanager
def engine_of(desk: Desk, slots: int = 4) -> Iterator[Engine]:
    engine = Engine(slots, desk.play, desk.deliver)
    yield engine
    engine.close(timeout=5)


def idle(engine: Engine) -> Callable[[], bool]:
    return lambda: engine.busy == 0


def test_no_more_run_at_once_than_there_are_slots() -> None:
    desk = Desk()
    with engine_of(desk, slots=3) as engine:
        engine.accept(batch_of(*(request(number) for number in range(20, 30))))
        until(lambda: desk.running == 3)
        assert engine.busy == 10
        desk.gate.set()
        until(idle(engine))
    assert sorted(desk.delivered) == list(range(20, 30))
    assert desk.most_running == 3


def test_a_doubled_batch_is_played_once_also_after_it_finished() -> None:
    desk = Desk()
    batch = batch_of(request(1), request(2))
    with engine_of(desk) as engine:
        assert engine.accept(batch) == 2
        assert engine.accept(batch) == 0
        desk.gate.set()
        until(idle(engine))
        assert engine.accept(batch) == 0
        assert engine.accept(batch_of(request(1, fence=2))) == 1
        until(idle(engine))
        assert engine.counters()["rollouts_duplicates"] == 4
    assert sorted(desk.delivered) == [1, 1, 2]


def test_a_cancelled_rollout_delivers_nothing_running_or_waiting() -> None:
    desk = Desk()
    with engine_of(desk, slots=1) as engine:
        engine.accept(batch_of(request(1), request(2), request(3)))
        until(lambda: desk.running == 1)
        assert engine.cancel(["1:1", "2:1", "9:9"]) == 2
        until(idle(engine))
        assert engine.counters()["rollouts_cancelled"] == 2
    assert desk.delivered == [3]


def test_a_cancel_of_another_fence_stops_nothing() -> None:
    desk = Desk()
    with engine_of(desk) as engine:
        engine.accept(batch_of(request(1, fence=2)))
        assert engine.cancel(["1:1"]) == 0
        desk.gate.set()
        until(idle(engine))
    assert desk.delivered == [1]


def test_a_bug_in_one_rollout_does_not_stop_its_siblings() -> None:
    desk = Desk()
    desk.gate.set()
    with engine_of(desk, slots=1) as engine:
        engine.accept(batch_of(request(13), request(14)))
        until(idle(engine))
        assert engine.counters()["rollouts_lost"] == 1
    assert desk.delivered == [14]


def test_a_closed_engine_stops_what_runs_and_takes_nothing() -> None:
    desk = Desk()
    engine = Engine(2, desk.play, desk.deliver)
    engine.accept(batch_of(*(request(number) for number in range(5))))
    began = time.monotonic()
    assert engine.close(timeout=5)
    assert time.monotonic() - began < 3
    assert desk.delivered == []
    with pytest.raises(EngineClosedError):
        engine.accept(batch_of(request(9)))
