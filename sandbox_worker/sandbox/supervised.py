"""A box as its supervisor serves it: the same for every way to make one."""

import itertools
import resource
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Literal

from sandbox_worker.sandbox import archive, descriptors, frames
from sandbox_worker.sandbox.base import (
    Box,
    BoxDeadError,
    BoxFileError,
    BoxKilledError,
    BoxSpec,
    BoxSpentError,
    CommandRefusedError,
    Completed,
    End,
    MissingFileError,
    Said,
    Session,
    SessionClosedError,
    Usage,
)
from sandbox_worker.sandbox.cgroups import OVERHEAD_PIDS
from sandbox_worker.sandbox.channel import Channel, ChannelClosedError, ChannelTimeoutError, Reply
from sandbox_worker.sandbox.ending import Counts, Report, box_ended, completed, not_run
from sandbox_worker.sandbox.network.environment import proxy_environment

FILE_SECONDS = 120.0
GRACE_SECONDS = 10.0
"""What the supervisor gets beyond a command's own time to kill it and to answer."""
SESSION_SECONDS = 30.0
MOST_SECONDS = 1e9
"""Of one command."""
_EXPIRY_SECONDS = 1.0
"""A box that ends so shortly before its time, or later, has ended for want of it."""
OPEN_FILES = 1024
BASE_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class Body(ABC):
    """What there is of a box on the host: processes, or a container."""

    pid: int
    """Of the supervisor, as this host sees it."""
    name: str = ""
    """What the host calls it."""
    bounded = True
    """Whether the kernel bounds its memory and its processes from outside."""

    @abstractmethod
    def counts(self) -> Counts: ...

    @abstractmethod
    def usage(self) -> Usage: ...

    def silence(self) -> str:
        """Why no answer of its supervisor may have reached us, though the box is well; empty where nothing did that."""
        return ""

    @abstractmethod
    def kill(self) -> None:
        """Everything in it dies now."""

    @abstractmethod
    def end(self) -> None:
        """Wait until it is dead, and remove what it had. Raises SandboxError."""


class SupervisedBox(Box):
    def __init__(self, spec: BoxSpec, channel: Channel, body: Body, release: ExitStack) -> None:
        """release gives back what outlives the processes, when they are gone."""
        self.name = body.name
        self._spec = spec
        self._channel = channel
        self._body = body
        self._release = release
        self._began = time.monotonic()
        self._calls = threading.Lock()
        self._stopping = threading.Lock()
        self._killed = False
        self._stopped = False
        self._last_usage = Usage(0.0, 0, 0)
        self._disk_bytes = 0

    def run(
        self,
        command: list[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
        cwd: str = "",
        user: str = "",
    ) -> Completed:
        limits = self._spec.limits
        fields = ["run", repr(timeout), str(limits.output_bytes), str(limits.printed_bytes)]
        fields += [self._absolute(cwd or "."), user, self._resource_limits(), str(len(command)), *command]
        fields += self._environment(env or {})
        if why := frames.unsendable(fields):
            return not_run(why)
        return self._watch(fields, stdin, timeout)[0]

    def cancel(self) -> None:
        self._channel.cancel()

    def open_session(self) -> Session:
        fields = ["session", self._spec.workdir, "", self._resource_limits(), *self._environment({})]
        self._accepted(self._ask(fields, seconds=SESSION_SECONDS))
        return SupervisedSession(self)

    def say(self, text: str, *, timeout: float, stdin: bytes) -> Said:
        """In the open session. Raises as Session.run() does."""
        limits = self._spec.limits
        fields = ["say", repr(timeout), str(limits.output_bytes), str(limits.printed_bytes), text]
        if why := frames.unsendable(fields):
            return Said(not_run(why), closed=False, waiting=False)
        done, session = self._watch(fields, stdin, timeout)
        return Said(done, closed=session == "closed", waiting=session == "waiting")

    def close_session(self) -> None:
        self._accepted(self._ask(["close"], seconds=SESSION_SECONDS))

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._file_request(path, ["write", self._absolute(path), str(mode)], (data,))

    def read(self, path: str, *, limit: int) -> bytes:
        return self._file_request(path, ["read", self._absolute(path), str(limit)], most=limit).data

    def snapshot(self, *, limit: int, folder: str = "") -> bytes:
        place = self._absolute(folder or ".")
        return archive.pack(self._file_request(place, ["snapshot", place, str(limit)], most=limit))

    def restore(self, content: bytes, *, folder: str = "", links: bool = False) -> None:
        place = self._absolute(folder or ".")
        entries = archive.unpack(content, links=links)
        self._file_request(place, ["empty", place])
        fields = ["restore", place, *itertools.chain.from_iterable(entry.fields for entry in entries)]
        self._file_request(place, fields, (entry.data for entry in entries))

    def give(self, *, env: tuple[tuple[str, str], ...], label: str) -> None:
        self._spec = replace(self._spec, env=env, label=label)

    def listener(self, port: int) -> socket.socket:
        """Who connects to this port of the box's own loopback is accepted here. Raises BoxDeadError, OSError."""
        reply = self._accepted(self._ask(["listen", str(port)], seconds=SESSION_SECONDS))
        listener = socket.socket(fileno=descriptors.taken(self._body.pid, int(reply.fields[1])))
        self._accepted(self._ask(["listen"], seconds=SESSION_SECONDS))
        return listener

    def renew(self) -> None:
        """Its worker lives: the supervisor need not end it."""
        self._channel.renew()

    def is_dead(self) -> bool:
        return self._killed or bool(self.spent) or self._channel.is_hung_up()

    def usage(self) -> Usage:
        if not self._stopped:
            self._last_usage = self._body.usage()
        return replace(self._last_usage, disk_bytes=self._disk_bytes)

    def kill(self) -> None:
        self._killed = True
        try:
            if not self._stopped:
                self._body.kill()
        finally:  # whoever waits for an answer is woken, also where an Engine does not do as it is told
            self._channel.hang_up()

    def stop(self) -> None:
        with self._stopping:
            if self._stopped:
                return
            self._last_usage = self.usage()
            self.kill()
            self._body.end()
            self._stopped = True
            with self._calls:  # whoever waited for an answer has been woken
                self._channel.close()
            self._release.close()

    def when_stopped(self, callback: Callable[[], None]) -> None:
        self._release.callback(callback)

    def _watch(self, fields: list[str], stdin: bytes, timeout: float) -> tuple[Completed, str]:
        """Of a command: how it ended, and what became of the session."""
        if not 0 < timeout <= MOST_SECONDS:
            raise CommandRefusedError(f"timeout: must be above 0 and at most {MOST_SECONDS:.0f} s, not {timeout!r}")
        self._require_life()
        before = self._counts()
        try:
            reply = self._accepted(self._ask(fields, (stdin,), seconds=timeout + GRACE_SECONDS))
            report = Report.of(reply)
        except BoxSpentError as error:  # starved by the command, or the supervisor was the victim
            return box_ended(error.end, timeout), "closed"
        except ValueError as error:
            raise self._broken(f"The supervisor speaks nonsense: {error}.") from error
        self._disk_bytes = max(self._disk_bytes, report.used_bytes)
        return completed(report, reply.data, self._counts().since(before)), report.session

    def _file_request(self, path: str, fields: list[str], pieces: Iterable[bytes] = (), most: int = 0) -> Reply:
        if why := frames.unsendable(fields):
            raise BoxFileError(path, why)
        reply = self._ask(fields, pieces, seconds=FILE_SECONDS, most=most)
        if reply.fields[0] == "missing":
            raise MissingFileError(path, reply.fields[-1])
        if reply.fields[0] != "ok":
            raise BoxFileError(path, reply.fields[-1])
        return reply

    def _accepted(self, reply: Reply) -> Reply:
        if reply.fields[0] == "ok":
            return reply
        if reply.fields == ["refused", "there is no session"]:
            raise SessionClosedError("The session has ended.")
        if reply.fields[0] == "refused":
            raise CommandRefusedError(reply.fields[-1])
        raise self._broken(f"The supervisor cannot start a command: {reply.fields[-1]}.")

    def _ask(
        self, fields: list[str], pieces: Iterable[bytes] = (), *, seconds: float, most: int | None = None
    ) -> Reply:
        most = self._spec.limits.output_bytes + 1 if most is None else most
        oom_kills = self._counts().oom_kills
        with self._calls:
            self._require_life()
            try:
                return self._channel.ask(fields, pieces, seconds=seconds, most=most)
            except ChannelTimeoutError as error:
                if why := self._body.silence():
                    raise self._broken(why) from error
                raise self._spend("time") from error
            except ChannelClosedError as error:
                if self._killed:
                    raise BoxKilledError("The box was killed.") from error
                if self._counts().oom_kills > oom_kills:
                    raise self._spend("memory") from error
                if time.monotonic() - self._began > self._spec.limits.wall_seconds - _EXPIRY_SECONDS:
                    raise self._spend("time") from error
                raise self._broken(str(error)) from error

    def _require_life(self) -> None:
        if self.spent:
            raise spent_error(self.spent)
        if self._killed:
            raise BoxKilledError("The box was killed.")

    def _spend(self, what: Literal["time", "memory"]) -> BoxSpentError:
        self.spent = what
        self.kill()
        return spent_error(what)

    def _broken(self, why: str) -> BoxDeadError:
        self.kill()
        return BoxDeadError(why)

    def _absolute(self, path: str) -> str:
        if path == ".":
            return self._spec.workdir
        return path if path.startswith("/") else f"{self._spec.workdir}/{path}"

    def _counts(self) -> Counts:
        return Counts() if self._killed else self._body.counts()

    def _environment(self, env: dict[str, str]) -> list[str]:
        network = dict(proxy_environment()) if self._spec.allowed_hosts else {}
        whole = BASE_ENV | {"HOME": self._spec.workdir} | network | dict(self._spec.env) | env
        return [f"{name}={value}" for name, value in whole.items()]

    def _resource_limits(self) -> str:
        limits = self._spec.limits
        wanted = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_FSIZE: limits.disk_bytes + 2**20,  # so that the quota is what is met
            resource.RLIMIT_NOFILE: OPEN_FILES,
        }
        if not self._body.bounded:
            wanted[resource.RLIMIT_AS] = limits.memory_bytes
            wanted[resource.RLIMIT_NPROC] = limits.pids + OVERHEAD_PIDS
        return ",".join(f"{number}={value}" for number, value in wanted.items())


class SupervisedSession(Session):
    def __init__(self, box: SupervisedBox) -> None:
        self._box = box
        self._closed = False

    def run(self, text: str, *, timeout: float, stdin: bytes = b"") -> Said:
        if self._closed:
            raise SessionClosedError("The session has ended.")
        said = self._box.say(text, timeout=timeout, stdin=stdin)
        self._closed = said.closed
        return said

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._box.close_session()


def spent_error(what: str) -> BoxSpentError:
    if what == "memory":
        return BoxSpentError("Its commands or its files left no memory to serve it with.", End.OUT_OF_MEMORY)
    return BoxSpentError("Its commands or its files took all its time.", End.TIMED_OUT)
