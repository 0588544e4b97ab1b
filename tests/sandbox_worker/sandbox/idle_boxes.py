"""A back end whose boxes do nothing but be there, for what is decided about boxes."""

import threading
from collections.abc import Callable

from sandbox_worker.sandbox.base import Backend, Box, BoxSpec, BoxStartError, Completed, SandboxError, Session, Usage


class IdleBox(Box):
    def __init__(self, spec: BoxSpec, name: str) -> None:
        self.spec = spec
        self.name = name
        self.label, self.env = spec.label, spec.env
        self.stopped = False
        self.dead = False
        self.stops_badly = 0

    def is_dead(self) -> bool:
        return self.dead

    def give(self, *, env: tuple[tuple[str, str], ...], label: str) -> None:
        self.env, self.label = env, label

    def stop(self) -> None:
        if self.stops_badly:
            self.stops_badly -= 1
            raise SandboxError("it will not stop")
        self.stopped = True

    def kill(self) -> None:
        self.dead = True

    def usage(self) -> Usage:
        return Usage(0.0, 0, 0)

    def run(self, command: list[str], **_: object) -> Completed:
        raise NotImplementedError

    def cancel(self) -> None:
        raise NotImplementedError

    def open_session(self) -> Session:
        raise NotImplementedError

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        raise NotImplementedError

    def read(self, path: str, *, limit: int) -> bytes:
        raise NotImplementedError

    def snapshot(self, *, limit: int, folder: str = "") -> bytes:
        raise NotImplementedError

    def restore(self, content: bytes, *, folder: str = "", links: bool = False) -> None:
        raise NotImplementedError


class IdleBackend(Backend):
    isolation, weaker = "idle", ""

    def __init__(self, before: Callable[[BoxSpec], None] = lambda _: None) -> None:
        """before: of each start; what it raises, the start raises."""
        self.started: list[IdleBox] = []
        self.closed = False
        self.most_at_once = 0
        self._before = before
        self._lock = threading.Lock()
        self._now = 0

    def start(self, spec: BoxSpec) -> Box:
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            self._before(spec)
            if self.closed:
                raise BoxStartError("The back end is closed.")
        finally:
            with self._lock:
                self._now -= 1
        with self._lock:
            box = IdleBox(spec, str(len(self.started) + 1))
            self.started.append(box)
        return box

    @property
    def living(self) -> list[IdleBox]:
        return [box for box in self.started if not box.stopped]

    def reap(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True
        for box in self.started:
            box.stop()
