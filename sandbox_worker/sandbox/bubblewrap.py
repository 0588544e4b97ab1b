"""Boxes of bubblewrap: own namespaces, own uid, control group, system call filter, and our supervisor as PID 1."""

import itertools
import os
import re
import resource
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from sandbox_worker.sandbox import archive, frames, launch, layout
from sandbox_worker.sandbox.base import (
    Backend,
    Box,
    BoxDeadError,
    BoxFileError,
    BoxSpec,
    BoxSpentError,
    BoxStartError,
    Completed,
    End,
    MissingFileError,
    SandboxError,
    Usage,
)
from sandbox_worker.sandbox.binary import Bubblewrap
from sandbox_worker.sandbox.cgroups import OVERHEAD_PIDS, Cgroup, CgroupTree
from sandbox_worker.sandbox.channel import Channel, ChannelClosedError, ChannelTimeoutError, Reply
from sandbox_worker.sandbox.ending import completed, not_run
from sandbox_worker.sandbox.owner import Owner
from sandbox_worker.sandbox.processes import BoxProcesses
from sandbox_worker.sandbox.program import supervisor_program
from sandbox_worker.sandbox.reap import reap
from sandbox_worker.sandbox.seccomp import build_filter
from sandbox_worker.sandbox.starter import Starter
from sandbox_worker.sandbox.uids import UidPool

START_SECONDS = 30.0
FILE_SECONDS = 120.0
GRACE_SECONDS = 10.0
"""What the supervisor gets beyond a command's own time to kill it and to answer."""
OPEN_FILES = 1024
BASE_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


@dataclass(frozen=True)
class Host:
    """What a back end needs of its host."""

    bubblewrap: Bubblewrap
    tree: CgroupTree | None
    """None: no limits from outside (weaker)."""
    own_uids: bool
    """Whether each box gets a uid of its own: when the worker is root."""
    weaker: str = ""


class BubblewrapBox(Box):
    def __init__(
        self, spec: BoxSpec, channel: Channel, processes: BoxProcesses, cgroup: Cgroup | None, release: ExitStack
    ) -> None:
        """release gives back what outlives the processes, when they are gone."""
        self._spec = spec
        self._channel = channel
        self._processes = processes
        self._cgroup = cgroup
        self._release = release
        self._calls = threading.Lock()
        self._stopping = threading.Lock()
        self._killed = False
        self._broken = ""
        self._stopped = False
        self._last_usage = Usage(0.0, 0, 0)

    def run(
        self, command: list[str], *, timeout: float, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> Completed:
        oom_before = self._oom_kills()
        fields = [repr(timeout), str(self._spec.limits.output_bytes), self._spec.workdir, self._resource_limits()]
        fields += [str(len(command)), *command, *self._environment(env or {})]
        if why := frames.unsendable(fields):
            return not_run(why)
        try:
            reply = self._ask("run", fields, (stdin,), seconds=timeout + GRACE_SECONDS)
        except ChannelTimeoutError:
            self._spend("time")  # starved by the command, so its time is up
            return Completed(End.TIMED_OUT, 124, b"", 0, timeout)
        except ChannelClosedError as error:
            if not self._killed and self._oom_kills() > oom_before:  # the supervisor was the victim
                self._spend("memory")
                return Completed(End.OUT_OF_MEMORY, 137, b"", 0, 0.0)
            self.kill()
            raise BoxDeadError(str(error)) from error
        if reply.fields[0] != "ok":
            self.kill()
            raise BoxDeadError(f"The supervisor cannot start a command: {reply.fields[-1]}.")
        return completed(reply, out_of_memory=self._oom_kills() > oom_before)

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._file_request("write", path, [self._absolute(path), str(mode)], (data,))

    def read(self, path: str, *, limit: int) -> bytes:
        return self._file_request("read", path, [self._absolute(path), str(limit)], most=limit).data

    def snapshot(self, *, limit: int) -> bytes:
        workdir = self._spec.workdir
        return archive.pack(self._file_request("snapshot", workdir, [workdir, str(limit)], most=limit))

    def restore(self, archive_bytes: bytes) -> None:
        workdir = self._spec.workdir
        entries = archive.unpack(archive_bytes)
        fields = [workdir, *itertools.chain.from_iterable(entry.fields for entry in entries)]
        self._file_request("restore", workdir, fields, (entry.data for entry in entries))

    def usage(self) -> Usage:
        if self._cgroup and not self._stopped:
            return self._cgroup.usage()
        return self._last_usage

    def kill(self) -> None:
        self._killed = True
        if not self._stopped:
            self._processes.kill()
            if self._cgroup:
                self._cgroup.kill()
        self._channel.hang_up()

    def stop(self) -> None:
        with self._stopping:
            if self._stopped:
                return
            self.kill()
            self._processes.wait()
            self._last_usage = self.usage()
            if self._cgroup:
                self._cgroup.kill()
                self._cgroup.remove()
            self._stopped = True
            self._processes.close()
            with self._calls:  # whoever waited for an answer has been woken
                self._channel.close()
            self._release.close()

    def when_stopped(self, callback: Callable[[], None]) -> None:
        self._release.callback(callback)

    def _file_request(
        self, operation: str, path: str, fields: list[str], pieces: Iterable[bytes] = (), most: int = 0
    ) -> Reply:
        if why := frames.unsendable(fields):
            raise BoxFileError(path, why)
        oom_before = self._oom_kills()
        try:
            reply = self._ask(operation, fields, pieces, seconds=FILE_SECONDS, most=most)
        except ChannelTimeoutError as error:
            self._spend("time")
            raise BoxSpentError(f"{path}: there was no end to its files.") from error
        except ChannelClosedError as error:
            if not self._killed and self._oom_kills() > oom_before:
                self._spend("memory")
                raise BoxSpentError(f"{path}: its files leave no memory to serve them with.") from error
            self.kill()
            raise BoxDeadError(str(error)) from error
        if reply.fields[0] == "missing":
            raise MissingFileError(path, reply.fields[-1])
        if reply.fields[0] != "ok":
            raise BoxFileError(path, reply.fields[-1])
        return reply

    def _spend(self, what: Literal["time", "memory"]) -> None:
        self.spent = what
        self.kill()

    def _ask(
        self, operation: str, fields: list[str], pieces: Iterable[bytes], *, seconds: float, most: int | None = None
    ) -> Reply:
        most = self._spec.limits.output_bytes + 1 if most is None else most
        with self._calls:
            if self.spent:
                raise BoxSpentError(f"Its commands took all its {self.spent}.")
            if self._killed:
                raise BoxDeadError("The box was killed.")
            return self._channel.ask([operation, *fields], pieces, seconds=seconds, most=most)

    def _absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._spec.workdir}/{path}"

    def _oom_kills(self) -> int:
        return self._cgroup.oom_kills() if self._cgroup and not self._killed else 0

    def _environment(self, env: dict[str, str]) -> list[str]:
        whole = BASE_ENV | {"HOME": self._spec.workdir} | dict(self._spec.env) | env
        return [f"{name}={value}" for name, value in whole.items()]

    def _resource_limits(self) -> str:
        limits = self._spec.limits
        wanted = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_FSIZE: limits.disk_bytes,
            resource.RLIMIT_NOFILE: OPEN_FILES,
            resource.RLIMIT_NPROC: limits.pids + OVERHEAD_PIDS,
        }
        if not self._cgroup:
            wanted[resource.RLIMIT_AS] = limits.memory_bytes
        return ",".join(f"{number}={value}" for number, value in wanted.items())


class BubblewrapBackend(Backend):
    """Safe for many threads. Make it in the process that uses it: its starter thread does not survive a fork."""

    def __init__(self, host: Host) -> None:
        self.isolation = describe(host)
        self.weaker = host.weaker
        self._host = host
        self._owner = Owner.this_process()
        self._uids = UidPool() if host.own_uids else None
        self._starter = Starter()
        self._at_once = threading.BoundedSemaphore(max(4, 2 * (os.cpu_count() or 1)))
        self._numbers = itertools.count(1)
        self._program = launch.sealed_program("supervisor", supervisor_program())
        self._filter = build_filter()
        self._boxes: set[BubblewrapBox] = set()
        self._lock = threading.Lock()
        self._closed = False

    def start(self, spec: BoxSpec) -> Box:
        layout.check_workdir(spec.workdir)
        with self._at_once:
            try:
                with ExitStack() as undo:
                    box = self._start(spec, undo)
                self._keep(box)
            except BoxStartError:
                raise
            except SandboxError as error:
                raise BoxStartError(str(error)) from error
            except OSError as error:
                raise BoxStartError(f"The box did not start: {error}.") from error
        return box

    def reap(self) -> int:
        return reap(self._host.tree) if self._host.tree else 0

    def close(self) -> None:
        with self._lock:
            boxes, was_closed, self._closed = list(self._boxes), self._closed, True
        with ExitStack() as everything:  # one box that does not stop keeps none of the others
            if not was_closed:
                everything.callback(self._let_go)
            for box in boxes:
                everything.callback(box.stop)

    def _let_go(self) -> None:
        self._starter.close()
        os.close(self._program)
        self._host.bubblewrap.close()
        if self._host.tree:
            self._host.tree.remove_owner(self._owner)

    def _start(self, spec: BoxSpec, undo: ExitStack) -> BubblewrapBox:
        """Everything that is in undo when this raises is undone; a box that is returned has taken it over."""
        release = undo.enter_context(ExitStack())
        uid = self._take_uid(release)
        cgroup = self._make_cgroup(spec, undo)
        ours, theirs = Channel.pair()
        undo.callback(ours.close)
        with ExitStack() as handed_over:
            handed_over.callback(theirs.close)
            inherited = launch.hand_over(spec, theirs.fileno(), self._program, self._filter, handed_over)
            errors = launch.memory("errors", b"", handed_over)
            words = layout.arguments(spec, inherited)
            process = self._starter.start(launch.launch(self._host.bubblewrap, cgroup, uid, words, inherited, errors))
            undo.callback(process.wait)
            undo.callback(process.kill)
            theirs.close()
            channel = Channel(ours)
            processes = BoxProcesses(process, await_ready(channel, errors))
        box = BubblewrapBox(spec, channel, processes, cgroup, release.pop_all())
        undo.pop_all()
        return box

    def _take_uid(self, release: ExitStack) -> int | None:
        if self._uids is None:
            return None
        uid = self._uids.take()
        release.callback(self._uids.give_back, uid)
        return uid

    def _make_cgroup(self, spec: BoxSpec, undo: ExitStack) -> Cgroup | None:
        if self._host.tree is None:
            return None
        cgroup = self._host.tree.create(self._owner, group_name(next(self._numbers), spec.label), spec.limits)
        undo.callback(cgroup.remove)
        undo.callback(cgroup.kill)
        return cgroup

    def _keep(self, box: BubblewrapBox) -> None:
        """Know it until it is stopped. Raises BoxStartError where close() was faster."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._boxes.add(box)
        if closed:
            box.stop()
            raise BoxStartError("The back end is closed.")
        box.when_stopped(lambda: self._boxes.discard(box))


def await_ready(channel: Channel, errors: int) -> int:
    """The supervisor's pid. Raises BoxStartError with what bubblewrap had to say."""
    try:
        return channel.await_ready(START_SECONDS)
    except (ChannelClosedError, ChannelTimeoutError) as error:
        said = os.pread(errors, 2000, 0).decode("utf-8", "replace").strip()
        raise BoxStartError(said or str(error)) from error


def group_name(number: int, label: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", label)[:100]
    return f"{number}-{plain}" if plain else str(number)


def describe(host: Host) -> str:
    uid = "an own uid for each box" if host.own_uids else "the worker's uid"
    limits = f"cgroup v{host.tree.version}" if host.tree else "no cgroup"
    return f"bubblewrap {host.bubblewrap.version}, {uid}, {limits}, seccomp"
