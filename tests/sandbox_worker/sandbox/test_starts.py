"""Starts take turns, within a process and between the processes of a host."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_worker.sandbox.starts import StartGivenUpError, StartLimiter, Ticket

ROOT = Path(__file__).parents[3]
HOLD = """
import sys, time
from pathlib import Path
from sandbox_worker.sandbox.starts import StartLimiter, Ticket
limiter = StartLimiter(int(sys.argv[2]), Path(sys.argv[1]))
with limiter.turn(Ticket()), limiter.turn(Ticket()):
    print("held", flush=True)
    time.sleep(60)
"""


def until(is_so: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Crowd:
    """Threads that each want one turn and hold it until they are let go."""

    def __init__(self, limiter: StartLimiter, size: int) -> None:
        self.limiter = limiter
        self.tickets = [Ticket() for _ in range(size)]
        self.order: list[int] = []
        self.gave_up: list[int] = []
        self.let_go = threading.Semaphore(0)
        self.now = self.most = 0
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self._want, args=(number,)) for number in range(size)]
        for number, thread in enumerate(self.threads):
            thread.start()
            until(lambda number=number: len(self.order) + self.waiting == number + 1)  # type: ignore[misc]

    @property
    def waiting(self) -> float:
        return self.limiter.counters()["starts_waiting"]

    def _want(self, number: int) -> None:
        try:
            with self.limiter.turn(self.tickets[number]):
                with self._lock:
                    self.order.append(number)
                    self.now += 1
                    self.most = max(self.most, self.now)
                self.let_go.acquire()
                with self._lock:
                    self.now -= 1
        except StartGivenUpError:
            self.gave_up.append(number)

    def finish(self) -> None:
        self.let_go.release(len(self.threads))
        for thread in self.threads:
            thread.join()


def test_a_burst_of_two_hundred_queues_and_finishes_in_its_order() -> None:
    crowd = Crowd(StartLimiter(3), 200)
    assert crowd.waiting == 197
    crowd.finish()
    assert crowd.most == 3
    assert len(crowd.order) == 200
    assert crowd.order[:3] == [0, 1, 2]
    assert all(abs(place - number) < 3 for place, number in enumerate(crowd.order)), "at most three race for the list"
    assert crowd.limiter.counters()["starts_now"] == 0


def test_who_gives_up_leaves_the_queue_at_once_and_the_next_gets_the_turn() -> None:
    crowd = Crowd(StartLimiter(1), 3)
    crowd.tickets[1].give_up()
    until(lambda: crowd.gave_up == [1])
    assert crowd.waiting == 1
    crowd.finish()
    assert crowd.order == [0, 2]


def test_a_start_that_was_given_up_before_it_queued_is_not_begun() -> None:
    ticket = Ticket()
    ticket.give_up()
    with pytest.raises(StartGivenUpError), StartLimiter(1).turn(ticket):
        pytest.fail("it had its turn")


def test_who_has_waited_too_long_gives_up() -> None:
    limiter = StartLimiter(1)
    with limiter.turn(Ticket()), pytest.raises(StartGivenUpError), limiter.turn(Ticket(0.02)):
        pytest.fail("it had its turn")
    with limiter.turn(Ticket()):
        assert limiter.counters()["starts_now"] == 1


def test_a_start_that_breaks_lets_go_of_its_turn() -> None:
    limiter = StartLimiter(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), limiter.turn(Ticket()):
            raise ZeroDivisionError
    assert limiter.counters()["starts_now"] == 0


def test_what_only_prepares_never_waits_and_never_goes_before_who_does() -> None:
    limiter = StartLimiter(2)
    with limiter.spare_turn() as first, limiter.spare_turn() as second, limiter.spare_turn() as third:
        assert (first, second, third) == (True, True, False)
    crowd = Crowd(limiter, 3)
    with limiter.spare_turn() as free:
        assert not free
    crowd.finish()


def test_waits_are_told() -> None:
    limiter = StartLimiter(1)
    assert "start_wait_p50_ms" not in limiter.counters()
    crowd = Crowd(limiter, 2)
    time.sleep(0.05)
    crowd.finish()
    assert limiter.counters()["start_wait_p95_ms"] >= 50


def holder(folder: Path, at_once: int) -> "subprocess.Popen[str]":
    """Another worker of the host, with two starts under way."""
    command = [sys.executable, "-c", HOLD, str(folder), str(at_once)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.process
def test_the_places_are_the_hosts_and_a_killed_worker_lets_go_of_its(tmp_path: Path) -> None:
    with holder(tmp_path, 3) as other:
        limiter = StartLimiter(3, tmp_path)
        crowd = Crowd(limiter, 2)
        time.sleep(0.05)
        assert crowd.order == [0]
        other.send_signal(signal.SIGKILL)
        until(lambda: crowd.order == [0, 1])
        crowd.finish()


def test_without_a_folder_that_can_be_written_the_limit_is_the_processs_own(tmp_path: Path) -> None:
    limiter = StartLimiter(1, tmp_path / "not there")
    crowd = Crowd(limiter, 2)
    time.sleep(0.02)
    assert crowd.order == [0]
    crowd.finish()
