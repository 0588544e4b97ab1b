"""Peak memory of a whole process tree, sampled: the sum of resident sets, so what is shared counts more than once."""

import os
import threading

import psutil

SECONDS = 2.0


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
            self.peak_bytes = max(self.peak_bytes, tree_rss(os.getpid()))
            stopped = self._stop.wait(self._every)


def tree_rss(pid: int) -> int:
    """Bytes resident in a process and its descendants now."""
    total = 0
    root = psutil.Process(pid)
    for process in [root, *root.children(recursive=True)]:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue  # it ended while we looked
    return total
