"""Boxes leased to attempts: starts are limited, everything is stopped, everything is counted."""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from sandbox_worker.attempt import Attempt
from sandbox_worker.errors import boundary
from sandbox_worker.messages import ResourceProfile, ResourceUse
from sandbox_worker.sandbox.base import Backend, Box, BoxSpec, Limits, SandboxError

log = logging.getLogger(__name__)

_RATE_SECONDS = 30.0
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
    """The back end of this process, shared by all its attempts."""

    def __init__(self, backend: Backend, *, starts_at_once: int) -> None:
        self.backend = backend
        self._starting = threading.BoundedSemaphore(starts_at_once)
        self._lock = threading.Lock()
        self._opened = time.monotonic()
        self._started = 0
        self._failed = 0
        self._reaped = 0
        self._unstopped: list[Box] = []
        self._recent: deque[float] = deque(maxlen=10_000)

    @contextmanager
    def lease(self, spec: BoxSpec, attempt: Attempt, use: BoxUse) -> Iterator[Box]:
        """A new box, killed if the attempt is cancelled, stopped in any case. Raises BoundaryError('box')."""
        box = self._start(spec, use)
        began = time.monotonic()
        try:
            with attempt.holding(box.kill):
                yield box
        finally:
            use.read(box)
            use.seconds += time.monotonic() - began
            self._stop(box, use)

    def _start(self, spec: BoxSpec, use: BoxUse) -> Box:
        try:
            with boundary("box"), self._starting:
                box = self.backend.start(spec)
        except Exception:
            use.failures += 1
            with self._lock:
                self._failed += 1
            raise
        use.started += 1
        with self._lock:
            self._started += 1
            self._recent.append(time.monotonic())
        return box

    def _stop(self, box: Box, use: BoxUse) -> None:
        """A box that does not stop is left to the reaper; the attempt keeps its outcome."""
        try:
            box.stop()
        except (SandboxError, OSError):
            use.failures += 1
            with self._lock:
                self._failed += 1
                self._unstopped.append(box)
            log.exception("a box did not stop; the reaper tries again")

    def reap(self) -> None:
        """Stop again what did not stop here, then remove what dead workers left."""
        self._stop_again()
        try:
            removed = self.backend.reap()
        except (SandboxError, OSError):
            log.exception("reaping failed; the next pass tries again")
            return
        with self._lock:
            self._reaped += removed
        if removed:
            log.warning("reaped %d boxes that dead workers left", removed)

    def _stop_again(self) -> None:
        with self._lock:
            waiting, self._unstopped = self._unstopped, []
        for box in waiting:
            try:
                box.stop()
            except (SandboxError, OSError):
                log.warning("a box still does not stop; the next pass tries again", exc_info=True)
                with self._lock:
                    self._unstopped.append(box)

    def counters(self) -> dict[str, float]:
        with self._lock:
            seconds = min(_RATE_SECONDS, max(1.0, time.monotonic() - self._opened))
            since = time.monotonic() - seconds
            recent = sum(1 for started_at in self._recent if started_at > since)
            return {
                "boxes_started": self._started,
                "boxes_failed": self._failed,
                "boxes_reaped": self._reaped,
                "boxes_unstopped": len(self._unstopped),
                "boxes_per_second": recent / seconds,
            }
