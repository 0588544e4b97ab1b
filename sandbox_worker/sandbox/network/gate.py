"""Lets the connections of one box in, no more at once and no faster than its caps say; lives on the proxy's loop."""

import asyncio
import contextlib
import logging
import socket

from sandbox_worker.sandbox.network.allowlist import Allowlist
from sandbox_worker.sandbox.network.caps import Caps
from sandbox_worker.sandbox.network.conversation import Conversation
from sandbox_worker.sandbox.network.ledger import Ledger
from sandbox_worker.sandbox.network.upstream import LOOKUPS_OF_A_BOX, Upstreams
from sandbox_worker.sandbox.network.visit import Visit

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5
"""After the host had no descriptor or no memory left for a connection."""


class Gate:
    """Owns the listener."""

    def __init__(
        self, listener: socket.socket, allowlist: Allowlist, ledger: Ledger, caps: Caps, upstreams: Upstreams
    ) -> None:
        self._listener = listener
        self._allowlist = allowlist
        self._ledger = ledger
        self._caps = caps
        self._upstreams = upstreams
        self._lookups = asyncio.Semaphore(LOOKUPS_OF_A_BOX)
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._due = self._loop.time()
        """When the next connection would come if they came as fast as they may, without bursts."""
        self._rest: asyncio.TimerHandle | None = None
        self._is_open = True
        self._look()

    async def close(self) -> None:
        """Every connection is dead after it. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._look_away()
            with self._listener, contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # the supervisor may still hold a copy
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _look(self) -> None:
        """Watch for the next connection, unless the box has as many as it may, or had its last ones too fast."""
        if not self._is_open:
            return
        self._look_away()
        if len(self._tasks) >= self._caps.connections:
            return
        if (early := self._due - self._loop.time()) > 0:
            self._rest = self._loop.call_later(early, self._look)
        else:
            self._loop.add_reader(self._listener, self._let_in)

    def _look_away(self) -> None:
        self._loop.remove_reader(self._listener)
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _let_in(self) -> None:
        now = self._loop.time()
        try:
            client, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # it left again
        except OSError as error:
            log.warning("a connection of a box has to wait: %s", error.strerror)
            self._due = now + _RETRY_SECONDS
        else:
            self._serve(client)
            self._due = max(self._due, now - 1.0) + 1.0 / self._caps.connections_a_second
        self._look()

    def _serve(self, client: socket.socket) -> None:
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        visit = Visit(self._ledger, self._caps)
        conversation = Conversation(client, visit, self._allowlist, self._upstreams, self._lookups)
        task = self._loop.create_task(conversation.hold())
        self._tasks.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a connection of a box was dropped", exc_info=error)
        self._look()
