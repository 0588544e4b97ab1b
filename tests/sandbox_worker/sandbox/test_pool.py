"""Warm boxes: clean, alive, in time; and the cold start where there is none."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from sandbox_worker.sandbox.base import Backend, Box, BoxSpec, BoxStartError, NoRoomError, SandboxError
from sandbox_worker.sandbox.pool import WarmPool
from sandbox_worker.sandbox.starts import StartGivenUpError, StartLimiter, Ticket
from tests.engine import Engine
from tests.sandbox_worker.docker_host import client_of, docker_backend
from tests.sandbox_worker.sandbox.boxes import groups_of, said, shell
from tests.sandbox_worker.sandbox.idle_boxes import IdleBackend, IdleBox
from tests.sandbox_worker.sandbox.test_starts import until

SPEC = BoxSpec(env=(("A", "1"),), label="1.2.1")
PLENTY = 2**40


@contextmanager
def pool_of(
    backend: Backend, *, most: int = 4, at_once: int = 4, spare: Callable[[], int] = lambda: PLENTY
) -> Iterator[WarmPool]:
    pool = WarmPool(backend, StartLimiter(at_once), most=most, spare=spare)
    try:
        yield pool
    finally:
        pool.close()


def warm(pool: WarmPool) -> int:
    return sum(pool.report().warm.values())


def one_waiting(pool: WarmPool, spec: BoxSpec = SPEC) -> None:
    """After a first box of this kind was asked for and stopped."""
    pool.stop(pool.start(spec))
    until(lambda: warm(pool) == 1)


def counted(pool: WarmPool, name: str) -> float:
    return pool.report().counters[name]


def test_the_first_is_a_miss_and_the_next_a_hit_that_is_given_its_owner() -> None:
    backend = IdleBackend()
    with pool_of(backend) as pool:
        one_waiting(pool)
        box = pool.start(BoxSpec(env=(("B", "2"),), label="5.6.1"))
        assert box is backend.started[1]
        assert (backend.started[1].label, backend.started[1].env) == ("5.6.1", (("B", "2"),))
        assert backend.started[1].spec == SPEC.kind, "it started as nobody's"
        assert (counted(pool, "pool_hits"), counted(pool, "pool_misses")) == (1, 1)


def test_no_box_is_given_out_twice() -> None:
    backend = IdleBackend()
    with pool_of(backend, most=8) as pool, ThreadPoolExecutor(8) as threads:

        def live(_: int) -> Box:
            box = pool.start(SPEC)
            pool.stop(box)
            return box

        given = list(threads.map(live, range(300)))
    assert len({id(box) for box in given}) == 300
    assert not backend.living


def test_a_box_that_died_while_it_waited_is_replaced_and_stopped() -> None:
    backend = IdleBackend()
    with pool_of(backend) as pool:
        one_waiting(pool)
        (waiting,) = backend.living
        waiting.dead = True
        box = pool.start(SPEC)
        assert box is not waiting
        until(lambda: waiting.stopped)
        assert counted(pool, "pool_died") == 1


def test_another_kind_gets_no_box_of_this_one() -> None:
    with pool_of(IdleBackend()) as pool:
        one_waiting(pool)
        pool.start(BoxSpec(workdir="/elsewhere"))
        assert counted(pool, "pool_hits") == 0


def test_without_a_pool_every_box_is_started_when_it_is_asked_for() -> None:
    backend = IdleBackend()
    with pool_of(backend, most=0) as pool:
        pool.start(SPEC)
        pool.start(SPEC)
        assert [box.label for box in backend.started] == ["1.2.1", "1.2.1"]
        assert (counted(pool, "pool_hits"), counted(pool, "pool_misses"), warm(pool)) == (0, 0, 0)


def test_nothing_waits_where_the_host_has_no_memory_to_spare() -> None:
    backend = IdleBackend()
    spare = [PLENTY]
    with pool_of(backend, spare=lambda: spare[0]) as pool:
        one_waiting(pool)
        spare[0] = -PLENTY
        until(lambda: warm(pool) == 0)
        pool.stop(pool.start(SPEC))
        until(lambda: not backend.living)
        assert counted(pool, "pool_evicted") == 1


def test_a_start_for_which_there_is_no_room_gets_that_of_the_boxes_that_wait() -> None:
    def refuse(_: BoxSpec) -> None:
        if len(backend.living) >= 3:
            raise NoRoomError("This worker holds 3 boxes already.")

    backend = IdleBackend(refuse)
    with pool_of(backend) as pool:
        held = [pool.start(SPEC)]
        until(lambda: len(backend.living) >= 2)
        held += [pool.start(BoxSpec(workdir=f"/{number}")) for number in range(2)]
        assert all(not box.stopped for box in held if isinstance(box, IdleBox))
        with pytest.raises(NoRoomError):
            pool.start(SPEC)


def test_a_start_that_fails_for_another_reason_costs_no_box_that_waits() -> None:
    def refuse(spec: BoxSpec) -> None:
        if spec.workdir == "/usr":
            raise BoxStartError("/usr cannot be the working folder of a box.")

    with pool_of(IdleBackend(refuse)) as pool:
        one_waiting(pool)
        with pytest.raises(BoxStartError):
            pool.start(BoxSpec(workdir="/usr"))
        assert (warm(pool), counted(pool, "pool_evicted")) == (1, 0)


def test_what_cannot_tell_of_memory_does_not_end_the_pool() -> None:
    broken = True

    def spare() -> int:
        if broken:
            raise OSError("no /proc")
        return PLENTY

    with pool_of(IdleBackend(), spare=spare) as pool:
        pool.start(SPEC)
        broken = False
        until(lambda: warm(pool) == 1)


def test_a_back_end_that_breaks_is_tried_again_with_pauses_and_says_so() -> None:
    tries = 0

    def break_down(spec: BoxSpec) -> None:
        nonlocal tries
        if not spec.label:
            tries += 1
            raise SandboxError("the daemon is away")

    with pool_of(IdleBackend(break_down)) as pool:
        pool.start(SPEC)
        until(lambda: tries)
        time.sleep(0.3)
        assert tries == 1
        assert pool.report().trouble == "/app, 1 cpu, 256 MiB, 64 pids: the daemon is away"


def test_trouble_that_is_over_is_no_longer_told() -> None:
    is_away = True

    def break_down(spec: BoxSpec) -> None:
        if is_away and not spec.label:
            raise OSError("no")

    with pool_of(IdleBackend(break_down)) as pool:
        pool.start(SPEC)
        until(lambda: pool.report().trouble)
        is_away = False
        until(lambda: warm(pool) == 1)
        assert pool.report().trouble == ""


def test_who_waits_for_a_start_can_give_up() -> None:
    may_go_on = threading.Event()

    def slowly(_: BoxSpec) -> None:
        may_go_on.wait(10)

    with pool_of(IdleBackend(slowly), most=0, at_once=1) as pool:
        first = threading.Thread(target=pool.start, args=(SPEC,))
        first.start()
        until(lambda: counted(pool, "starts_now") == 1)
        ticket = Ticket()
        threading.Timer(0.05, ticket.give_up).start()
        with pytest.raises(StartGivenUpError):
            pool.start(SPEC, ticket)
        may_go_on.set()
        first.join()


def test_what_refills_the_pool_keeps_nobody_waiting() -> None:
    def slowly(spec: BoxSpec) -> None:
        time.sleep(0.01)

    backend = IdleBackend(slowly)
    with pool_of(backend, at_once=2) as pool, ThreadPoolExecutor(20) as threads:
        list(threads.map(lambda _: pool.start(SPEC), range(100)))
    assert backend.most_at_once <= 2


def test_a_box_that_does_not_stop_is_stopped_again_by_the_reaper() -> None:
    backend = IdleBackend()
    with pool_of(backend, most=0) as pool:
        box = pool.start(SPEC)
        assert isinstance(box, IdleBox)
        box.stops_badly = 2
        with pytest.raises(SandboxError):
            pool.stop(box)
        assert counted(pool, "boxes_unstopped") == 1
        pool.reap()
        assert counted(pool, "boxes_unstopped") == 1
        pool.reap()
        assert (box.stopped, counted(pool, "boxes_unstopped")) == (True, 0)


def test_closing_stops_what_waits_and_what_just_started() -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def slowly(spec: BoxSpec) -> None:
        if not spec.label:
            begun.set()
            may_go_on.wait(10)

    backend = IdleBackend(slowly)
    with pool_of(backend) as pool:
        pool.start(SPEC)
        assert begun.wait(10)
        threading.Timer(0.05, may_go_on.set).start()
    until(lambda: not backend.living)
    assert backend.closed


def test_the_times_to_get_a_box_are_told() -> None:
    with pool_of(IdleBackend()) as pool:
        assert "acquire_p50_ms" not in pool.report().counters
        one_waiting(pool)
        told = pool.report().counters
        assert told["acquire_p95_ms"] >= told["acquire_p50_ms"] >= 0
        assert told["refills_per_second"] > 0


class Kept(Backend):
    """A real back end of many tests, which this one must not close."""

    def __init__(self, backend: Backend) -> None:
        self.isolation, self.weaker = backend.isolation, backend.weaker
        self.start, self.reap = backend.start, backend.reap  # type: ignore[method-assign]

    def start(self, spec: BoxSpec) -> Box:
        raise NotImplementedError

    def reap(self) -> int:
        raise NotImplementedError

    def close(self) -> None:
        return


@pytest.mark.sandbox
def test_a_real_box_that_waited_is_clean_and_its_attempts(backend: Backend) -> None:
    groups = set(groups_of(os.getpid()))
    with pool_of(Kept(backend)) as pool:
        first = pool.start(SPEC)
        shell(first, "echo dirt > dirt")
        pool.stop(first)
        until(lambda: warm(pool) == 1)
        box = pool.start(BoxSpec(env=(("MINE", "yes"),), label="7.8.1"))
        assert counted(pool, "pool_hits") == 1
        assert said(shell(box, "ls; echo $MINE")) == "yes"
        pool.stop(box)
    assert set(groups_of(os.getpid())) == groups


@pytest.mark.docker
def test_a_container_that_waited_is_clean_and_one_that_died_is_not_given_out(engine: Engine) -> None:
    with docker_backend(engine) as docker, client_of(engine) as client:
        with pool_of(docker, most=1) as pool:
            one_waiting(pool)
            box = pool.start(BoxSpec(env=(("MINE", "yes"),), label="7.8.1"))
            assert (counted(pool, "pool_hits"), said(shell(box, "ls; echo $MINE"))) == (1, "yes")
            pool.stop(box)
            until(lambda: warm(pool) == 1)
            for one in client.containers():
                client.kill(one["Id"])
            box = pool.start(SPEC)
            assert (counted(pool, "pool_died"), said(shell(box, "echo alive"))) == (1, "alive")
        assert client.containers(all=True) == []


@pytest.mark.sandbox
def test_a_real_box_that_was_killed_while_it_waited_is_not_given_out(backend: Backend) -> None:
    before = set(groups_of(os.getpid()))
    with pool_of(Kept(backend), most=1) as pool:
        one_waiting(pool)
        for group in set(groups_of(os.getpid())) - before:
            for pid in (group / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        until(lambda: not any((group / "cgroup.procs").read_text() for group in set(groups_of(os.getpid())) - before))
        box = pool.start(SPEC)
        assert said(shell(box, "echo alive")) == "alive"
        assert counted(pool, "pool_died") == 1
        pool.stop(box)
    assert set(groups_of(os.getpid())) == before
