"""Builds that failed a moment ago: a group's tries all want the same image, and one failure of it is enough."""

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable

from sandbox_worker.sandbox.images.errors import ImageError

_SECONDS = 600.0
_MOST = 200


class Failures:
    """Safe for many threads."""

    def __init__(self, *, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[float, ImageError]] = OrderedDict()

    def remember(self, key: Hashable, error: ImageError) -> None:
        with self._lock:
            self._known[key] = time.monotonic() + self._seconds, error
            while len(self._known) > _MOST:
                self._known.popitem(last=False)

    def raise_again(self, key: Hashable) -> None:
        """Raises the ImageError of this key, while it is fresh."""
        with self._lock:
            until, error = self._known.get(key, (0.0, None))
        if error is not None and time.monotonic() < until:
            raise error.with_traceback(None)
