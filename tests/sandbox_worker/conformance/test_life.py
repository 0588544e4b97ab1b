"""How a box begins and ends: by its worker, by what it took, by its time, by its lease; and what is said of it then."""

import gc
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import (
    Backend,
    Box,
    BoxDeadError,
    BoxKilledError,
    BoxSpec,
    BoxSpentError,
    BoxStartError,
    End,
    SandboxError,
)
from sandbox_worker.sandbox.renewing import Renewing
from sandbox_worker.sandbox.supervised import SupervisedBox
from tests.engine import Engine
from tests.sandbox_worker.conformance.worker import Worker
from tests.sandbox_worker.processes import until
from tests.sandbox_worker.sandbox.boxes import MARK, MEGABYTE, groups_of, open_box, processes_with, said, shell

NAP = f"27182.{MARK.rpartition('-')[2]}"


def test_another_working_folder(backend: Backend) -> None:
    with open_box(backend, workdir="/srv/work") as box:
        assert said(shell(box, "pwd; echo $HOME; touch here && ls")) == "/srv/work\n/srv/work\nhere"


def test_a_working_folder_over_the_system_is_refused(backend: Backend) -> None:
    for workdir in ("/", "app", "/usr", "/usr/lib/x", "/etc", "/proc/1", "/app/../usr", "/dev/shm"):
        with pytest.raises(BoxStartError):
            backend.start(BoxSpec(workdir=workdir))


@pytest.mark.parametrize("workdir", ["/logs\0x", "/" + "x" * 300])
def test_a_failed_start_leaves_nothing(backend: Backend, workdir: str) -> None:
    with pytest.raises(BoxStartError):
        backend.start(BoxSpec(workdir=workdir))


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_box_that_another_thread_ends_says_that_it_was_killed(backend: Backend, end: str) -> None:
    with open_box(backend) as box:
        ender = threading.Timer(0.3, getattr(box, end))
        ender.start()
        with pytest.raises(BoxKilledError) as raised:
            shell(box, f"setsid -f sleep {NAP}; sleep {NAP}", timeout=60)
        ender.join()
        assert raised.value.end is End.CANCELLED
        assert not processes_with(NAP)


def test_a_killed_box_says_that_it_was_killed(backend: Backend) -> None:
    with open_box(backend) as box:
        box.kill()
        for ask in asks(box):
            with pytest.raises(BoxKilledError):
                ask()


def test_stop_may_come_twice_and_nothing_may_be_asked_after_it(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "true")
    used = box.usage()
    box.stop()
    box.kill()
    assert box.usage() == used
    for ask in asks(box):
        with pytest.raises(BoxDeadError):
            ask()


def test_a_box_whose_supervisor_dies_is_dead(backend: Backend, supervisors_alive: Callable[[], set[int]]) -> None:
    with open_box(backend) as box:
        killer = threading.Timer(0.5, lambda: os.kill(supervisors_alive().pop(), signal.SIGKILL))
        killer.start()
        with pytest.raises(BoxDeadError) as raised:
            shell(box, f"sleep {NAP}", timeout=60)
        killer.join()
        assert raised.value.end is End.SANDBOX_DEAD
        assert not box.spent
        with pytest.raises(BoxDeadError):
            box.read("file", limit=1)
        assert not processes_with(NAP)


def test_a_box_that_its_command_starved_says_so(
    backend: Backend, supervisors_alive: Callable[[], set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_worker.sandbox.supervised.GRACE_SECONDS", 0.5)
    with open_box(backend) as box:
        os.kill(supervisors_alive().pop(), signal.SIGSTOP)
        assert shell(box, "true", timeout=0.5).end is End.TIMED_OUT
        assert box.spent == "time"
        for ask in asks(box):
            with pytest.raises(BoxSpentError) as raised:
                ask()
            assert raised.value.end is End.TIMED_OUT


def test_files_that_leave_no_memory_to_serve_them_with_are_not_our_failure(backend: Backend) -> None:
    with open_box(backend, memory_bytes=48 * MEGABYTE, disk_bytes=128 * MEGABYTE) as box:
        with pytest.raises(BoxSpentError) as raised:
            box.write("large", bytes(96 * MEGABYTE))
        assert (raised.value.end, box.spent) == (End.OUT_OF_MEMORY, "memory")


def test_r52_a_box_without_work_ends_when_its_time_is_up(
    backend: Backend, supervisors_alive: Callable[[], set[int]]
) -> None:
    with open_box(backend, wall_seconds=1.5) as box:
        assert said(shell(box, "echo alive")) == "alive"
        time.sleep(3)
        assert not supervisors_alive()
        done = shell(box, "true")
        assert (done.end, done.finished, box.spent) == (End.TIMED_OUT, False, "time")
        for ask in asks(box):
            with pytest.raises(BoxSpentError):
                ask()


def test_r52_a_command_ends_when_the_time_of_its_box_is_up(backend: Backend) -> None:
    with open_box(backend, wall_seconds=2.0) as box:
        began = time.monotonic()
        done = shell(box, f"trap '' TERM ALRM; kill -ALRM 1; setsid -f sleep {NAP}; sleep {NAP}", timeout=60)
        assert (done.end, done.exit_code, done.finished, box.spent) == (End.TIMED_OUT, 124, False, "time")
        assert 1.0 < time.monotonic() - began < 7.0
        assert not processes_with(NAP)


def test_r52_signals_by_the_million_put_off_no_end(backend: Backend) -> None:
    flood = "import os\nfor _ in range(6):\n    if not os.fork(): break\nwhile True: os.kill(1, 14)"
    with open_box(backend, wall_seconds=2.0, cpus=2.0) as box:
        done = box.run(["python3", "-c", flood], timeout=8)
        assert (done.end, box.spent) == (End.TIMED_OUT, "time")


def test_r52_an_upload_ends_when_the_time_of_its_box_is_up(backend: Backend) -> None:
    def write_on(box: Box) -> None:
        while time.monotonic() - began < 7.0:
            box.write("large", bytes(16 * MEGABYTE))

    with open_box(backend, wall_seconds=2.0) as box:
        began = time.monotonic()
        with pytest.raises(BoxSpentError) as raised:
            write_on(box)
        assert time.monotonic() - began < 7.0
        assert (raised.value.end, box.spent) == (End.TIMED_OUT, "time")


def test_r52_a_session_ends_when_the_time_of_its_box_is_up(backend: Backend) -> None:
    with open_box(backend, wall_seconds=2.0) as box:
        said_last = box.open_session().run(f"sleep {NAP}", timeout=60)
        assert (said_last.completed.end, said_last.closed, box.spent) == (End.TIMED_OUT, True, "time")
        assert not processes_with(NAP)


def test_a_box_whose_worker_falls_silent_ends_itself(
    backend: Backend, supervisors_alive: Callable[[], set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "LEASE_SECONDS", 1)
    with open_box(backend) as box:
        assert isinstance(box, SupervisedBox)
        renewing = Renewing(lambda: [box], seconds=0.2)
        assert said(shell(box, "sleep 3; echo alive")) == "alive"
        time.sleep(2)
        assert said(shell(box, "echo alive")) == "alive"
        renewing.close()
        until(lambda: not supervisors_alive(), seconds=10)
        with pytest.raises(BoxDeadError):
            shell(box, "true")
        assert not box.spent


def test_r23_a_worker_that_is_killed_leaves_nothing_after_one_search(backend: Backend, worker: Worker) -> None:
    began = worker.start("nap", NAP)
    assert len(processes_with(f"sleep\0{NAP}")) == 4
    began.kill()
    began.wait()
    until(lambda: backend.reap() == 0, seconds=10)
    assert not processes_with(f"sleep\0{NAP}")
    assert not groups_of(began.pid)


@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
def test_r24_an_engine_that_is_killed_takes_its_boxes_along_and_makes_new_ones(
    backend: Backend, engine: Engine
) -> None:
    with open_box(backend) as box:
        killer = threading.Timer(0.5, lambda: engine.stop(signal.SIGKILL))
        killer.start()
        with pytest.raises(SandboxError) as raised:
            shell(box, f"sleep {NAP}", timeout=60)
        killer.join()
        engine.start()
        assert raised.value.end in (End.SANDBOX_DEAD, End.INFRA)
    assert not processes_with(NAP)
    del raised
    gc.collect()  # what Docker's client loses where nobody listens


@pytest.mark.parametrize("count", [pytest.param(64, id="r54")])
def test_a_crowd_of_starts_is_queued_and_all_start(backend: Backend, count: int) -> None:
    def live(number: int) -> str:
        with open_box(backend) as box:
            return said(shell(box, f"setsid -f sleep {NAP}; echo {number}", timeout=60))

    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(live, range(count))) == [str(number) for number in range(count)]
    assert not processes_with(NAP)


def test_boxes_share_nothing(backend: Backend) -> None:
    with open_box(backend) as one, open_box(backend) as other:
        for place in ("/app", "/tmp", "/logs", "/dev/shm"):
            shell(one, f"echo secret > {place}/file")
            assert said(shell(other, f"ls {place}/file 2>/dev/null")) == ""


def asks(box: Box) -> tuple[Callable[[], object], ...]:
    return (
        lambda: shell(box, "true"),
        lambda: box.write("file", b""),
        lambda: box.read("file", limit=1),
        lambda: box.snapshot(limit=MEGABYTE),
        box.open_session,
    )
