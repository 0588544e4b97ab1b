"""Our own boxes, as a rollout gets them: opened by the same door, cold or from the warm pool."""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Literal

from benchmarks.boxes.contract import CPUS, DISK_BYTES, MEMORY_BYTES, PIDS, Arm, Box, Done
from benchmarks.boxes.crew import work
from benchmarks.boxes.serving import serve
from sandbox_worker.sandbox import base
from sandbox_worker.sandbox.choose import Wanted, open_backend
from sandbox_worker.sandbox.pool import WarmPool
from sandbox_worker.sandbox.starts import StartLimiter

SPEC = base.BoxSpec(base.Limits(cpus=CPUS, memory_bytes=MEMORY_BYTES, pids=PIDS, disk_bytes=DISK_BYTES))
WAITING = {"cold": 0, "warm": 16}
"""Boxes in a pool; as many as the product's default."""
SETTLE_SECONDS = 60.0
REFILL_SECONDS = 10.0


class OurBox(Box):
    def __init__(self, box: base.Box, stop: Callable[[], None]) -> None:
        self._box = box
        self._stop = stop
        self._session: base.Session | None = None

    def run(self, script: str, *, seconds: float) -> Done:
        return self._run(["bash", "-c", script], seconds)

    def run_true(self) -> Done:
        return self._run(["true"], 30)

    def open_session(self) -> None:
        self._session = self._box.open_session()

    def run_true_in_session(self) -> Done:
        assert self._session is not None
        return told(self._session.run("true", timeout=30).completed)

    def stop(self) -> None:
        self._stop()

    def _run(self, command: list[str], seconds: float) -> Done:
        return told(self._box.run(command, timeout=seconds))


def told(done: base.Completed) -> Done:
    return Done(done.exit_code, done.output_bytes, timed_out=done.end is base.End.TIMED_OUT)


class Ours(Arm):
    def __init__(self, backend: base.Backend, *, waiting: int) -> None:
        """waiting: boxes that the pool may start ahead of demand; none for an arm that is cold."""
        self._most = waiting
        self._pool = WarmPool(backend, StartLimiter(max(4, 2 * (os.cpu_count() or 1))), most=waiting)

    def start(self) -> Box:
        box = self._pool.start(SPEC)
        return OurBox(box, partial(self._pool.stop, box))

    def settle(self, at_once: int) -> None:
        """It follows demand, so that it is shown the demand where it has forgotten."""
        wanted = min(at_once, self._most)
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._waiting() < wanted and time.monotonic() < deadline:
            for box in work([self.start] * at_once, at_once=at_once, seconds=SETTLE_SECONDS).values:
                box.stop()
            self._refilled(wanted, deadline)

    def reap(self) -> None:
        self._pool.reap()

    def close(self) -> None:
        self._pool.close()

    def _waiting(self) -> int:
        return sum(self._pool.report().warm.values())

    def _refilled(self, count: int, deadline: float) -> None:
        until = min(deadline, time.monotonic() + REFILL_SECONDS)
        while self._waiting() < count and time.monotonic() < until:
            time.sleep(0.01)


def make() -> Arm:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["bubblewrap", "docker"])
    parser.add_argument("start", choices=list(WAITING))
    chosen = parser.parse_args()
    return Ours(open_backend(boxes_of(chosen.kind)), waiting=WAITING[chosen.start])


def boxes_of(kind: Literal["bubblewrap", "docker"]) -> Wanted:
    if kind == "bubblewrap":
        return Wanted(kind)
    return Wanted(kind, docker_url=os.environ["DOCKER_HOST"], docker_image=os.environ["ASSAY_BENCHMARK_IMAGE"])


if __name__ == "__main__":
    serve(make)
