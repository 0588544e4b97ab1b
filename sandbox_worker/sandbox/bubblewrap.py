"""Boxes of bubblewrap: own namespaces, own uid, control group, system call filter, and our supervisor as PID 1."""

import itertools
import os
import re
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from sandbox_worker.sandbox import launch, layout
from sandbox_worker.sandbox.base import BoxSpec, BoxStartError, HostCannotIsolateError, Usage
from sandbox_worker.sandbox.binary import Bubblewrap, bundled_bubblewrap, numbers
from sandbox_worker.sandbox.cgroups import Cgroup, CgroupTree
from sandbox_worker.sandbox.channel import Channel, ChannelClosedError, ChannelTimeoutError, await_writer, pair
from sandbox_worker.sandbox.ending import Counts
from sandbox_worker.sandbox.image_root import OLDEST as OLDEST_WITH_OVERLAYS
from sandbox_worker.sandbox.image_root import ImageRoot
from sandbox_worker.sandbox.keeping import KeepingBackend
from sandbox_worker.sandbox.owner import Owner
from sandbox_worker.sandbox.processes import BoxProcesses
from sandbox_worker.sandbox.program import supervisor_program
from sandbox_worker.sandbox.reap import reap
from sandbox_worker.sandbox.seccomp import build_filter
from sandbox_worker.sandbox.starter import Starter
from sandbox_worker.sandbox.supervised import Body, SupervisedBox
from sandbox_worker.sandbox.uids import UidPool

START_SECONDS = 30.0
FindRoot = Callable[[str, str, ExitStack], ImageRoot]
"""Of an image by its digest, for a working folder, until the stack is closed."""


@dataclass(frozen=True)
class Host:
    """What a back end needs of its host."""

    bubblewrap: Bubblewrap
    tree: CgroupTree | None
    """None: no limits from outside (weaker)."""
    own_uids: bool
    """Whether each box gets a uid of its own: when the worker is root."""
    weaker: str = ""


class BubblewrapBody(Body):
    def __init__(self, processes: BoxProcesses, cgroup: Cgroup | None) -> None:
        self.pid = processes.supervisor_pid
        self.name = cgroup.folders[0].name if cgroup else ""
        self.bounded = cgroup is not None
        self._processes = processes
        self._cgroup = cgroup

    def counts(self) -> Counts:
        return Counts(self._cgroup.oom_kills(), self._cgroup.pid_refusals()) if self._cgroup else Counts()

    def usage(self) -> Usage:
        return self._cgroup.usage() if self._cgroup else Usage(0.0, 0, 0)

    def kill(self) -> None:
        self._processes.kill()
        if self._cgroup:
            self._cgroup.kill()

    def end(self) -> None:
        self._processes.wait()
        if self._cgroup:
            self._cgroup.kill()
            self._cgroup.remove()
        self._processes.close()


class BubblewrapBackend(KeepingBackend):
    """Its starter thread must live as long as the worker: the parent-death signal of the boxes hangs on it."""

    def __init__(self, host: Host, find_root: FindRoot | None = None) -> None:
        self.isolation = describe(host)
        self.weaker = host.weaker
        self._host = host
        self._find_root = find_root
        self._overlaying: Bubblewrap | None = None
        self._owner = Owner.this_process()
        self._uids = UidPool() if host.own_uids else None
        self._starter = Starter()
        self._numbers = itertools.count(1)
        self._program = launch.sealed_program("supervisor", supervisor_program())
        self._filter = build_filter()
        super().__init__()

    def reap(self) -> int:
        return reap(self._host.tree) if self._host.tree else 0

    def _let_go(self) -> None:
        self._starter.close()
        os.close(self._program)
        self._host.bubblewrap.close()
        if self._overlaying:
            self._overlaying.close()
        if self._host.tree:
            self._host.tree.remove_owner(self._owner)

    def _start(self, spec: BoxSpec, undo: ExitStack) -> SupervisedBox:
        release = undo.enter_context(ExitStack())
        root = self._root(spec, release)
        uid = self._take_uid(release, root)
        cgroup = self._make_cgroup(spec, undo)
        ours, theirs = pair()
        undo.callback(ours.close)
        with ExitStack() as handed_over:
            handed_over.callback(theirs.close)
            inherited = launch.hand_over(spec, theirs.fileno(), self._program, self._filter, handed_over)
            errors = launch.memory("errors", b"", handed_over)
            words = layout.arguments(spec, inherited, root)
            bubblewrap = self._with_overlays() if root else self._host.bubblewrap
            process = self._starter.start(launch.launch(bubblewrap, cgroup, uid, words, inherited, errors))
            undo.callback(process.wait)
            undo.callback(process.kill)
            theirs.close()
            channel = Channel(ours)
            processes = BoxProcesses(process, await_ready(ours, channel, errors))
        box = SupervisedBox(spec, channel, BubblewrapBody(processes, cgroup), release.pop_all())
        undo.pop_all()
        return box

    def _root(self, spec: BoxSpec, release: ExitStack) -> ImageRoot | None:
        if not spec.image:
            return None
        if self._find_root is None:
            raise BoxStartError(f"This back end knows no images, and the box wants {spec.image}.")
        return self._find_root(spec.image, spec.workdir, release)

    def _with_overlays(self) -> Bubblewrap:
        """The system's if it is new enough, else the wheel's. Raises HostCannotIsolateError."""
        if numbers(self._host.bubblewrap.version) >= OLDEST_WITH_OVERLAYS:
            return self._host.bubblewrap
        with self._lock:
            if self._overlaying is None:
                self._overlaying = overlaying_bubblewrap(self._host.bubblewrap.version)
            return self._overlaying

    def _take_uid(self, release: ExitStack, root: ImageRoot | None) -> int | None:
        if self._uids is None:
            return None
        if root and root.writable:
            return root.writable.uid
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


def overlaying_bubblewrap(system: str) -> Bubblewrap:
    """Raises HostCannotIsolateError."""
    try:
        return bundled_bubblewrap()
    except HostCannotIsolateError as error:
        missing = f"a box on an image needs bubblewrap 0.11 or later, and here is {system}; {error.missing}"
        raise HostCannotIsolateError(missing, error.mend) from error


def await_ready(ours: socket.socket, channel: Channel, errors: int) -> int:
    """The supervisor's pid. Raises BoxStartError with what bubblewrap had to say."""
    try:
        pid = await_writer(ours, START_SECONDS)
        channel.await_ready(START_SECONDS)
    except (ChannelClosedError, ChannelTimeoutError) as error:
        said = os.pread(errors, 2000, 0).decode("utf-8", "replace").strip()
        raise BoxStartError(said or str(error)) from error
    return pid


def group_name(number: int, label: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", label)[:100]
    return f"{number}-{plain}" if plain else str(number)


def describe(host: Host) -> str:
    uid = "an own uid for each box" if host.own_uids else "the worker's uid"
    limits = f"cgroup v{host.tree.version}" if host.tree else "no cgroup"
    return f"bubblewrap {host.bubblewrap.version}, {uid}, {limits}, seccomp"
