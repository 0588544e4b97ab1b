"""The filtering proxy of a worker: one thread for all its boxes, and for each box a listener, a list and a log.

A box has no network but its own loopback. The listener was made inside it and handed out, so what is accepted here
comes from this box and from nowhere else, and a box can reach nothing but what this proxy connects it to.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from typing import Any

from sandbox_worker.sandbox.base import SandboxError
from sandbox_worker.sandbox.network.addresses import why_not_usable
from sandbox_worker.sandbox.network.allowlist import Allowlist
from sandbox_worker.sandbox.network.caps import Caps
from sandbox_worker.sandbox.network.gate import Gate
from sandbox_worker.sandbox.network.ledger import Counters, Decision, Ledger
from sandbox_worker.sandbox.network.upstream import Resolve, Upstreams, WhyNot, resolve_by_system

_CAPS = Caps()
_LOOP_SECONDS = 30.0


class ProxyError(SandboxError):
    """The proxy is closed, or was given what it cannot listen at."""


class BoxNetwork:
    """A box's part of the proxy. Thread-safe."""

    def __init__(self, proxy: "Proxy", gate: Gate, ledger: Ledger) -> None:
        self._proxy = proxy
        self._gate = gate
        self._ledger = ledger

    def close(self) -> None:
        """Cut its connections off and listen no more. Idempotent; the log stays."""
        self._proxy.remove(self._gate)

    def log(self) -> tuple[Decision, ...]:
        """One for each connection that has ended, in this order; from the middle some are missing if they were many."""
        return self._ledger.log()

    def counters(self) -> Counters:
        return self._ledger.counters()


class Proxy:
    """One for a worker process. resolve and why_not are other ones only where the hosts are a test's own."""

    def __init__(self, *, resolve: Resolve = resolve_by_system, why_not: WhyNot = why_not_usable) -> None:
        self._lock = threading.Lock()
        self._gates: set[Gate] = set()
        self._is_open = True
        self._upstreams = Upstreams(resolve, why_not)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="box-network", daemon=True)
        self._thread.start()

    def serve(self, listener: socket.socket, allowlist: Allowlist, label: str, caps: Caps = _CAPS) -> BoxNetwork:
        """Takes the listener over, also where it raises ProxyError."""
        ledger = Ledger(label, records=caps.records, up_bytes=caps.up_bytes, down_bytes=caps.down_bytes)
        with contextlib.ExitStack() as unless_served:
            unless_served.callback(listener.close)
            _check_listener(listener)
            with self._lock:
                if not self._is_open:
                    raise ProxyError("The proxy of the boxes is closed.")
                gate: Gate = self._wait(self._open(listener, allowlist, ledger, caps))
                self._gates.add(gate)
            unless_served.pop_all()
        return BoxNetwork(self, gate, ledger)

    def remove(self, gate: Gate) -> None:
        """Idempotent."""
        with self._lock:
            if gate in self._gates:
                self._wait(gate.close())
                self._gates.discard(gate)

    def close(self) -> None:
        """Cut every box's connections off and end the thread. Idempotent."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._wait(self._close())
            self._gates.clear()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self, listener: socket.socket, allowlist: Allowlist, ledger: Ledger, caps: Caps) -> Gate:
        return Gate(listener, allowlist, ledger, caps, self._upstreams)

    async def _close(self) -> None:
        await asyncio.gather(*(gate.close() for gate in self._gates))
        self._upstreams.close()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Nothing on the loop takes long: a late answer means that it is stuck, and no caller shall be too."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(_LOOP_SECONDS)
        except TimeoutError as error:
            raise ProxyError("The proxy of the boxes does not answer.") from error


def _check_listener(listener: socket.socket) -> None:
    """It came out of a box."""
    is_internet = listener.family in (socket.AF_INET, socket.AF_INET6) and listener.type == socket.SOCK_STREAM
    if not is_internet or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise ProxyError("What was handed out of the box is no socket that listens for TCP.")
    listener.setblocking(False)
