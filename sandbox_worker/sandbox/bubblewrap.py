"""Boxes of bubblewrap: own namespaces, own uid, control group, system call filter, and our supervisor as PID 1."""

import itertools
import os
import re
import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass

from sandbox_worker.sandbox import launch, layout
from sandbox_worker.sandbox.base import Backend, Box, BoxSpec, BoxStartError, SandboxError
from sandbox_worker.sandbox.binary import Bubblewrap
from sandbox_worker.sandbox.cgroups import Cgroup, CgroupTree
from sandbox_worker.sandbox.channel import Channel, ChannelClosedError, ChannelTimeoutError, await_writer, pair
from sandbox_worker.sandbox.owner import Owner
from sandbox_worker.sandbox.processes import BoxProcesses
from sandbox_worker.sandbox.program import supervisor_program
from sandbox_worker.sandbox.reap import reap
from sandbox_worker.sandbox.seccomp import build_filter
from sandbox_worker.sandbox.starter import Starter
from sandbox_worker.sandbox.supervised import Body, SupervisedBox
from sandbox_worker.sandbox.uids import UidPool

START_SECONDS = 30.0


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
        self.cgroup = cgroup
        self._processes = processes

    def kill(self) -> None:
        self._processes.kill()
        if self.cgroup:
            self.cgroup.kill()

    def end(self) -> None:
        self._processes.wait()
        if self.cgroup:
            self.cgroup.kill()
            self.cgroup.remove()
        self._processes.close()


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
        self._boxes: set[SupervisedBox] = set()
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

    def _start(self, spec: BoxSpec, undo: ExitStack) -> SupervisedBox:
        """Everything that is in undo when this raises is undone; a box that is returned has taken it over."""
        release = undo.enter_context(ExitStack())
        uid = self._take_uid(release)
        cgroup = self._make_cgroup(spec, undo)
        ours, theirs = pair()
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
            processes = BoxProcesses(process, await_ready(ours, channel, errors))
        box = SupervisedBox(spec, channel, BubblewrapBody(processes, cgroup), release.pop_all())
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

    def _keep(self, box: SupervisedBox) -> None:
        """Know it until it is stopped. Raises BoxStartError where close() was faster."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._boxes.add(box)
        if closed:
            box.stop()
            raise BoxStartError("The back end is closed.")
        box.when_stopped(lambda: self._boxes.discard(box))


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
