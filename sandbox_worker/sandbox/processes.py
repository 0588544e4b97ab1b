"""The two processes of a box that the host knows: bubblewrap, our child, and the supervisor, PID 1 of the box."""

import os
import select
import signal
import subprocess
import threading

from sandbox_worker.sandbox.base import SandboxError

_WAIT_SECONDS = 10.0


class StillAliveError(SandboxError):
    """What was killed has not ended."""


class BoxProcesses:
    def __init__(self, bubblewrap: "subprocess.Popen[bytes]", supervisor_pid: int) -> None:
        """Raises ProcessLookupError if the supervisor has ended already."""
        self._bubblewrap = bubblewrap
        self.supervisor_pid = supervisor_pid
        self._supervisor = os.pidfd_open(supervisor_pid)
        self._outer = os.pidfd_open(bubblewrap.pid)
        self._lock = threading.Lock()
        self._closed = False

    def kill(self) -> None:
        """Kill PID 1: the kernel then kills all of its namespace, and bubblewrap ends when that is done."""
        with self._lock:
            if not self._closed:
                try:
                    signal.pidfd_send_signal(self._supervisor, signal.SIGKILL)
                except ProcessLookupError:
                    return  # it ended by itself

    def wait(self) -> None:
        """Until both are gone. Raises StillAliveError."""
        for pidfd in (self._supervisor, self._outer):
            if not has_ended(pidfd, _WAIT_SECONDS):
                raise StillAliveError(f"The box of process {self._bubblewrap.pid} will not die.")
        self._bubblewrap.wait()

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._supervisor)
                os.close(self._outer)


def has_ended(pidfd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
