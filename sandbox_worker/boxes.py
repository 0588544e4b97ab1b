"""Boxes leased to attempts: starts are limited, everything is stopped, everything is counted."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import msgspec

from sandbox_worker.attempt import Attempt
from sandbox_worker.errors import BoundaryError, boundary
from sandbox_worker.messages import ResourceProfile, ResourceUse
from sandbox_worker.sandbox.base import Box, BoxSpec, Limits, SandboxError
from sandbox_worker.sandbox.pool import PoolReport, WarmPool
from sandbox_worker.sandbox.starts import StartGivenUpError, Ticket
from sandbox_worker.sandbox.timings import Timings

log = logging.getLogger(__name__)

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BASE_ENV = (("PATH", _PATH), ("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("TERM", "dumb"))


def box_spec(attempt: Attempt, workdir: str, env: tuple[tuple[str, str], ...], image: str = "") -> BoxSpec:
    """The same for the agent's box and the fresh one."""
    request = attempt.request
    return BoxSpec(
        limits=box_limits(request.profile),
        workdir=workdir,
        env=tuple((dict(_BASE_ENV) | dict(env)).items()),
        label=f"{request.run_id}.{request.rollout_id}.{request.attempt}",
        image=image,
    )


def box_limits(profile: ResourceProfile) -> Limits:
    return Limits(**msgspec.structs.asdict(profile))


class BoxUse:
    """What the boxes of one attempt used, summed or peaked."""

    def __init__(self) -> None:
        self.started = 0
        self.failures = 0
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.memory_peak_bytes = 0
        self.pids_peak = 0

    def read(self, box: Box) -> None:
        """A dead box tells nothing more; its use so far is lost, and that is all."""
        try:
            usage = box.usage()
        except SandboxError as error:
            log.info("usage of a box not read: %s", error)
            return
        self.cpu_seconds += usage.cpu_seconds
        self.memory_peak_bytes = max(self.memory_peak_bytes, usage.memory_peak_bytes)
        self.pids_peak = max(self.pids_peak, usage.pids_peak)

    def report(self, *, prompt_tokens: int, sampled_tokens: int) -> ResourceUse:
        return ResourceUse(
            boxes_started=self.started,
            box_failures=self.failures,
            sandbox_seconds=self.seconds,
            cpu_seconds=self.cpu_seconds,
            memory_peak_bytes=self.memory_peak_bytes,
            pids_peak=self.pids_peak,
            prompt_tokens=prompt_tokens,
            sampled_tokens=sampled_tokens,
        )


class Boxes:
    """The pool of this process, shared by all its attempts."""

    def __init__(self, pool: WarmPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._started = Timings(time.monotonic())
        self._counts: Counter[str] = Counter()

    @property
    def isolation(self) -> str:
        return self._pool.isolation

    @contextmanager
    def lease(self, spec: BoxSpec, attempt: Attempt, use: BoxUse) -> Iterator[Box]:
        """A clean box, killed if the attempt is cancelled, stopped in any case.

        Raises BoundaryError('box'), and as Attempt.check() does where the attempt did not get its turn to start."""
        box = self._start(spec, attempt, use)
        began = time.monotonic()
        try:
            with attempt.holding(box.kill):
                yield box
        finally:
            use.read(box)
            use.seconds += time.monotonic() - began
            self._stop(box, use)

    def _start(self, spec: BoxSpec, attempt: Attempt, use: BoxUse) -> Box:
        ticket = Ticket(attempt.seconds_left)
        try:
            with attempt.holding(ticket.give_up), boundary("box"):
                box = self._pool.start(spec, ticket)
        except BoundaryError as error:
            if isinstance(error.__cause__, StartGivenUpError):
                attempt.check()
            use.failures += 1
            self._count("boxes_failed")
            raise
        use.started += 1
        self._count("boxes_started")
        self._started.add(time.monotonic())
        return box

    def _stop(self, box: Box, use: BoxUse) -> None:
        """A box that does not stop is left to the reaper; the attempt keeps its outcome."""
        try:
            self._pool.stop(box)
        except (SandboxError, OSError):
            use.failures += 1
            self._count("boxes_failed")
            log.exception("a box did not stop; the reaper tries again")

    def reap(self) -> None:
        """Stop again what did not stop here, then remove what dead workers left."""
        try:
            removed = self._pool.reap()
        except (SandboxError, OSError):
            log.exception("reaping failed; the next pass tries again")
            return
        self._count("boxes_reaped", removed)
        if removed:
            log.warning("reaped %d boxes that dead workers left", removed)

    def report(self) -> PoolReport:
        """What the pool tells, with the counters of the leases."""
        told = self._pool.report()
        with self._lock:
            counts = {name: float(self._counts[name]) for name in ("boxes_started", "boxes_failed", "boxes_reaped")}
        counts["boxes_per_second"] = self._started.per_second(time.monotonic())
        return replace(told, counters=told.counters | counts)

    def _count(self, name: str, how_many: int = 1) -> None:
        with self._lock:
            self._counts[name] += how_many
