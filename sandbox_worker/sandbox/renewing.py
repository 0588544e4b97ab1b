"""Tells the boxes of a back end, again and again, that their worker lives."""

import threading
from collections.abc import Callable, Iterable

from sandbox_worker.sandbox.layout import LEASE_SECONDS
from sandbox_worker.sandbox.supervised import SupervisedBox


class Renewing:
    """A thread of its own, for a box may be asked nothing for longer than its lease."""

    def __init__(self, boxes: Callable[[], Iterable[SupervisedBox]], *, seconds: float = LEASE_SECONDS / 4) -> None:
        """boxes: those that live now. seconds: between two rounds."""
        self._boxes = boxes
        self._seconds = seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="box-leases", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._closed.wait(self._seconds):
            for box in self._boxes():
                box.renew()
