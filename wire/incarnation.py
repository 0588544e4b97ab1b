"""One life of a worker process: its name, its heartbeat, and the orders that it polls for."""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from wire.finding import Finding
from wire.store import MissingObjectError, Store

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 10.0
ORDERS_SECONDS = 1.0


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Sent as the only argument of the control plane's heartbeat job."""

    incarnation: str
    kind: Literal["sandbox", "learner"]
    host: str
    slot: str
    """Name of this worker on its host: a newer incarnation in the same slot proves that the older one is dead.

    Only a supervisor that ends the older one before it starts the newer may give it (ASSAY_WORKER_SLOT); without, each
    incarnation has its own."""
    pid: int
    started_at: float
    """Unix seconds."""
    sent_at: float
    capacity: int
    """Rollouts (or learner steps) at once."""
    busy: int
    holding: tuple[str, ...] = ()
    """'<rollout id>:<fence>' of every attempt that it has accepted and not finished, or '<step id>:<fence>'."""
    isolation: str = ""
    """How the boxes are isolated, in words; empty for a learner."""
    weaker: str = ""
    """Why the isolation is weaker than the default; empty if it is not."""
    counters: dict[str, float] = {}
    """Running totals since the start: boxes started, boxes failed, and the like."""
    warm: dict[str, int] = {}
    """Boxes started ahead of demand that wait now, by their kind in words."""
    trouble: str = ""
    """Why the last box that should have waited did not start; empty since one did."""
    leaving: bool = False
    """The last heartbeat of a clean stop."""
    refused: str = ""
    """Why this worker cannot work on its host, and how to mend that: its only heartbeat, sent before it ends."""
    findings: tuple[Finding, ...] = ()
    """What was found of its host, all rows; none in a heartbeat that has nothing new to tell, which most have not."""
    examined_at: float = 0.0
    """Unix seconds at which the findings were made."""
    version: int = 1


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What the control plane wants of one incarnation, whole, at control/<incarnation>.json."""

    cancelled: frozenset[str] = frozenset()
    """'<rollout id>:<fence>' of attempts to stop, or '<step id>:<fence>' for a learner."""
    drain: bool = False
    version: int = 1


def orders_key(incarnation: str) -> str:
    return f"control/{incarnation}.json"


def refusal(kind: Literal["sandbox", "learner"], reason: str, findings: Sequence[Finding] = ()) -> dict[str, object]:
    """The only heartbeat of a worker that cannot work on its host."""
    now = time.time()
    told = {"refused": reason, "findings": tuple(findings), "examined_at": now}
    return _heartbeat(uuid.uuid4().hex, kind, now, leaving=True, capacity=0, busy=0, **told)


def _heartbeat(incarnation: str, kind: str, started_at: float, **status: object) -> dict[str, object]:
    values = {
        "incarnation": incarnation,
        "kind": kind,
        "host": socket.gethostname(),
        "slot": os.environ.get("ASSAY_WORKER_SLOT", "") or incarnation,
        "pid": os.getpid(),
        "started_at": started_at,
        "sent_at": time.time(),
        **status,
    }
    return dict(msgspec.to_builtins(msgspec.convert(values, Heartbeat)))


class Incarnation:
    """Beats every 10 s and polls its orders every second, in one daemon thread."""

    def __init__(
        self,
        kind: Literal["sandbox", "learner"],
        store: Store,
        send: Callable[[dict[str, object]], None],
        status: Callable[[], dict[str, object]],
        on_orders: Callable[[Orders], None],
    ) -> None:
        """send publishes one heartbeat; status gives its fields from capacity on."""
        self.id = uuid.uuid4().hex
        self.kind = kind
        self.store = store
        self.started_at = time.time()
        self._send = send
        self._status = status
        self._on_orders = on_orders
        self._stop = threading.Event()
        self._beat_now = threading.Event()
        self._next_beat = 0.0
        self._seen = Orders()
        self._thread = threading.Thread(target=self._live, name="incarnation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def beat_soon(self) -> None:
        """Work was accepted, finished or cancelled: tell within a second, not at the next beat."""
        self._beat_now.set()

    def stop(self) -> None:
        """Say goodbye and stop beating. Safe to call twice."""
        if not self._stop.is_set():
            self._stop.set()
            self._beat(leaving=True)

    def _live(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
            except Exception:  # a process that lives and does not beat would lose all that it plays
                log.exception("a heartbeat or an order failed; tried again")
            self._stop.wait(ORDERS_SECONDS)

    def _look(self) -> None:
        if time.monotonic() >= self._next_beat or self._beat_now.is_set():
            self._beat_now.clear()
            self._beat(leaving=False)
            self._next_beat = time.monotonic() + HEARTBEAT_SECONDS
        orders = self._read_orders(self._seen)
        if orders != self._seen:
            self._on_orders(orders)
            self._seen = orders

    def _beat(self, *, leaving: bool) -> None:
        beat = _heartbeat(self.id, self.kind, self.started_at, leaving=leaving, **self._status())
        try:
            self._send(beat)
        except Exception:  # the broker may be away; the next beat tries again
            log.warning("heartbeat not sent", exc_info=True)

    def _read_orders(self, last: Orders) -> Orders:
        try:
            return msgspec.json.decode(self.store.get(orders_key(self.id)), type=Orders)
        except MissingObjectError:
            return last
        except Exception:
            log.warning("orders not readable", exc_info=True)
            return last
