"""Starts processes from one thread that lives as long as the worker.

The kernel sends a parent-death signal when the *thread* that started a child ends. A pool's threads come and go; this
one does not. Nothing of Python runs between fork and exec, so that no lock of another thread can hang a child.
"""

import queue
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    command: list[str]
    inherit: tuple[int, ...]
    """Descriptors that stay open under the same numbers."""
    errors: int
    """Where its error output goes."""
    env: dict[str, str]


_Job = tuple[Launch, "Future[subprocess.Popen[bytes]]"]


class Starter:
    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="box-starter", daemon=True)
        self._thread.start()

    def start(self, launch: Launch) -> "subprocess.Popen[bytes]":
        """Raises OSError as Popen does."""
        future: Future[subprocess.Popen[bytes]] = Future()
        self._jobs.put((launch, future))
        return future.result()

    def close(self) -> None:
        """Ends what it started, too."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while job := self._jobs.get():
            launch, future = job
            try:
                future.set_result(popen(launch))
            except Exception as error:  # noqa: BLE001 (it is the caller's, and this thread must live on)
                future.set_exception(error)


def popen(launch: Launch) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        launch.command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=launch.errors,
        pass_fds=launch.inherit,
        env=launch.env,
        cwd="/",
    )
