"""One supervised process: started, watched, started again, and ended with all that it started."""

import os
import signal
import subprocess
import time

from controlplane.guard import Guard
from controlplane.output import Log
from controlplane.process import Process
from wire.orphan import child_setup

FIRST_DELAY = 0.5
LONGEST_DELAY = 15.0
STEADY_SECONDS = 30.0
"""A process that ran this long is healthy: its next restart waits for the first delay again."""


class Child:
    """Used by one thread, which must live as long as the child: the kernel watches that thread."""

    def __init__(self, process: Process, log: Log, guard: Guard) -> None:
        self.process = process
        self.log = log
        self._guard = guard
        self.restarts = 0
        self.was_ready = False
        self.refused = False
        """It said that it cannot work on this host (exit code 78): it is not started again."""
        self._running: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._delay = FIRST_DELAY
        self._start_again_at: float | None = None

    @property
    def pid(self) -> int | None:
        return self._running.pid if self._running else None

    def start(self) -> None:
        process = self.process
        if process.before is not None:
            process.before()
        self._running = subprocess.Popen(
            process.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=process.folder,
            env={**os.environ, **process.environment},
            user=process.uid,
            group=process.gid,
            extra_groups=None if process.uid is None else [],
            start_new_session=True,
            preexec_fn=child_setup(process.stop_signal),
        )
        self._guard.watch(self._running.pid)
        self._started_at = time.monotonic()
        self._start_again_at = None
        assert self._running.stdout is not None
        self.log.follow(self._running.stdout)

    def ended(self) -> int | None:
        """Its exit code, once, when it has ended; what it left running in its group is killed first."""
        if self._running is None:
            return None
        if os.waitid(os.P_PID, self._running.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self.signal(signal.SIGKILL)  # before it is reaped: until then nobody else can get its number
        self._guard.forget(self._running.pid)
        code = self._running.wait()
        self._running = None
        return code

    def signal(self, signum: signal.Signals) -> None:
        """To its whole group for SIGKILL, else to itself alone."""
        if self._running is None:
            return
        send = os.killpg if signum == signal.SIGKILL else os.kill
        try:
            send(self._running.pid, signum)
        except ProcessLookupError:
            return  # ended meanwhile

    def is_ready(self) -> bool:
        if self._running is None:
            return False
        self.was_ready = self.was_ready or self.process.ready is None or self.process.ready()
        return self.was_ready

    def plan_restart(self) -> float:
        """Seconds until then: twice as many after each quick end."""
        if time.monotonic() - self._started_at > STEADY_SECONDS:
            self._delay = FIRST_DELAY
        delay, self._delay = self._delay, min(self._delay * 2, LONGEST_DELAY)
        self._start_again_at = time.monotonic() + delay
        self.restarts += 1
        return delay

    def restart_if_due(self) -> bool:
        if self._start_again_at is None or time.monotonic() < self._start_again_at:
            return False
        self.start()
        return True
