"""What every back end does with its boxes: start one whole or not at all, renew leases, stop all at the end."""

import errno
import threading
from abc import abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sandbox_worker.sandbox.base import Backend, Box, BoxSpec, BoxStartError, NoRoomError, SandboxError
from sandbox_worker.sandbox.network.environment import PORT
from sandbox_worker.sandbox.renewing import Renewing
from sandbox_worker.sandbox.supervised import SupervisedBox

if TYPE_CHECKING:
    from sandbox_worker.sandbox.network.way_out import WayOut

_NO_ROOM = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOSPC)
"""Of memory, processes, descriptors, control groups."""


class KeepingBackend(Backend):
    """Safe for many threads. Make it in the process that uses it: its threads do not survive a fork."""

    def __init__(self) -> None:
        self._boxes: set[SupervisedBox] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._network: WayOut | None = None
        self._renewing = Renewing(self._living)

    @abstractmethod
    def _start(self, spec: BoxSpec, undo: ExitStack) -> SupervisedBox:
        """Everything that is in undo when this raises is undone; a box that is returned has taken it over."""

    @abstractmethod
    def _let_go(self) -> None:
        """Of what all boxes shared, once, when none is left."""

    def start(self, spec: BoxSpec) -> Box:
        try:
            with ExitStack() as undo:
                box = self._start(spec, undo)
            self._keep(box)
            self._let_out(box, spec)
        except BoxStartError:
            raise
        except SandboxError as error:
            raise BoxStartError(str(error)) from error
        except OSError as error:
            kind = NoRoomError if error.errno in _NO_ROOM else BoxStartError
            raise kind(f"The box did not start: {error}.") from error
        return box

    def _let_out(self, box: SupervisedBox, spec: BoxSpec) -> None:
        """To the hosts that it may reach, and to no other. Raises what keeps it from that, the box stopped."""
        if not spec.allowed_hosts:
            return
        try:
            close = self._way_out().open(spec.allowed_hosts, spec.label, lambda: box.listener(PORT))
        except (SandboxError, OSError):
            box.stop()
            raise
        box.when_stopped(close)

    def _way_out(self) -> "WayOut":
        """Made when the first box asks for it."""
        from sandbox_worker.sandbox.network.way_out import WayOut  # noqa: PLC0415 (boxes without one need no package)

        with self._lock:
            if self._network is None:
                self._network = WayOut()
            return self._network

    def close(self) -> None:
        with self._lock:
            boxes, was_closed, self._closed = list(self._boxes), self._closed, True
        with ExitStack() as everything:  # one box that does not stop keeps none of the others
            if not was_closed:
                everything.callback(self._let_go)
                if self._network:
                    everything.callback(self._network.close)
                everything.callback(self._renewing.close)
            for box in boxes:
                everything.callback(box.stop)

    def _living(self) -> list[SupervisedBox]:
        with self._lock:
            return list(self._boxes)

    def _keep(self, box: SupervisedBox) -> None:
        """Know it until it is stopped. Raises BoxStartError where close() was faster."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._boxes.add(box)
        if closed:
            box.stop()
            raise BoxStartError("The back end is closed.")
        box.when_stopped(lambda: self._forget(box))

    def _forget(self, box: SupervisedBox) -> None:
        with self._lock:
            self._boxes.discard(box)
