"""Peak memory of a whole process tree, sampled. What processes share is counted once (proportional set sizes)."""

import os
import threading

import psutil

SECONDS = 5.0


class PeakMemory:
    """Samples this process and all below it until stopped."""

    def __init__(self, every: float = SECONDS) -> None:
        self.peak_bytes = 0
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        stopped = False
        while not stopped:
            self.peak_bytes = max(self.peak_bytes, tree_bytes(os.getpid()))
            stopped = self._stop.wait(self._every)


def tree_bytes(pid: int) -> int:
    """Bytes resident in a process and its descendants now."""
    root = psutil.Process(pid)
    return sum(_resident(process) for process in [root, *root.children(recursive=True)])


def _resident(process: psutil.Process) -> int:
    try:
        try:
            return int(process.memory_full_info().pss)
        except psutil.AccessDenied:  # another user's: what it shares counts as its own
            return int(process.memory_info().rss)
    except psutil.NoSuchProcess:  # it ended while we looked
        return 0
