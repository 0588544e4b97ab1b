"""One command of a box: started in its own session, watched, and ended with everything that it left."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the signal module builds enums at each start of a box
import ctypes
import errno
import os
import resource
import select
import time

from sandbox_worker.sandbox.frames import CHUNK, DATA
from sandbox_worker.sandbox.supervisor.files import write_all
from sandbox_worker.sandbox.supervisor.wire import Channel

LONGEST_WAIT = 3600.0
"""The kernel takes no more than 24 days."""
_PR_SET_DUMPABLE = 4
_LIBC = ctypes.CDLL(None)


class Kept:
    """The head and the tail of an output, and how much there was."""

    def __init__(self, cap: int) -> None:
        self.total = 0
        self.head = bytearray()
        self.tail = bytearray()
        self.head_cap = (cap + 1) // 2
        self.tail_cap = max(cap // 2, 1)

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self.head_cap - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 4 * self.tail_cap + CHUNK:
            del self.tail[: -self.tail_cap]

    def bytes(self) -> bytes:
        return bytes(self.head + self.tail[-self.tail_cap :])


def run(channel: Channel, fields: list[str]) -> None:
    """Fields: seconds, cap, folder, resource limits, number of words, the words, then the environment."""
    seconds, cap, folder, limits, words = float(fields[0]), int(fields[1]), fields[2], fields[3], int(fields[4])
    command, environment = fields[5 : 5 + words], fields[5 + words :]
    stdin = spool(channel)
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    kept = Kept(cap)
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        become(command, environment, folder, limits, stdin, writer)
    os.close(stdin)
    os.close(writer)
    pidfd = os.pidfd_open(pid)
    timed_out = not watch(channel, pid, pidfd, reader, kept, started + seconds)
    code = os.waitstatus_to_exitcode(end_all(pid))
    taken = time.monotonic() - started
    drain(reader, kept)
    os.close(pidfd)
    os.close(reader)
    channel.send(DATA, kept.bytes())
    channel.reply("ok", "1" if timed_out else "0", str(code), str(kept.total), repr(taken))


def spool(channel: Channel) -> int:
    """The request's data as a file to read from its start: no pipe to feed while the command runs."""
    first = channel.data()
    if not first:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    while first:
        write_all(fd, first)
        first = channel.data()
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def become(command: list[str], environment: list[str], folder: str, limits: str, stdin: int, output: int) -> None:
    """In the child: turn into the command. Never returns."""
    code = 126
    try:
        os.setsid()
        set_dumpable(True)  # else its own /proc/self would belong to root
        first_to_be_killed()
        os.nice(5)  # the supervisor must get its turn among busy children
        for limit in limits.split(","):
            name, _, value = limit.partition("=")
            resource.setrlimit(getattr(resource, name), (int(value), int(value)))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a thread of the worker may have had some blocked
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and ignoring is inherited
            signal.signal(number, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.set_blocking(1, True)
        os.closerange(3, 1024)
        os.chdir(folder)
        pairs = [entry.partition("=") for entry in environment if entry]
        execute(command, {name: value for name, _, value in pairs})
    except FileNotFoundError as error:
        code = 127
        os.write(1, f"{error.filename or command[0]}: not found\n".encode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        os.write(1, f"{command[0]}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(code)


def execute(command: list[str], environment: dict[str, str]) -> None:
    """As os.execvpe, which imports a module at its first call, and here every call is a first one."""
    program = command[0]
    if "/" in program:
        os.execve(program, command, environment)
    for folder in environment.get("PATH", "").split(":"):
        if os.access(f"{folder}/{program}", os.X_OK):
            os.execve(f"{folder}/{program}", command, environment)
    raise FileNotFoundError(errno.ENOENT, "not found", program)


def set_dumpable(dumpable: bool) -> None:
    _LIBC.prctl(_PR_SET_DUMPABLE, int(dumpable), 0, 0, 0)


def first_to_be_killed() -> None:
    """When memory runs out the kernel must choose the command, not its supervisor."""
    fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(fd, b"1000")
    os.close(fd)


def watch(channel: Channel, pid: int, pidfd: int, reader: int, kept: Kept, deadline: float) -> bool:
    """Until the command ends (true) or its time is up (false): take its output, bury its orphans."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(reader, select.POLLIN)
    poll.register(channel.fd, select.POLLRDHUP)
    poll.register(channel.child_ended, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        ready = dict(poll.poll(min(left, LONGEST_WAIT) * 1000 + 1))
        if channel.fd in ready:
            os._exit(0)  # the worker is gone
        if pidfd in ready:
            return True
        if channel.child_ended in ready:
            os.read(channel.child_ended, 4096)
            bury_orphans(pid)
        if reader in ready and not take(reader, kept):
            poll.unregister(reader)


def take(reader: int, kept: Kept) -> bool:
    """One piece of output; false at its end."""
    try:
        data = os.read(reader, CHUNK)
    except BlockingIOError:  # a writing end may lie in the queue of a socket that the kernel has yet to collect
        return False
    kept.add(data)
    return bool(data)


def drain(reader: int, kept: Kept) -> None:
    """What is still in the pipe. Every writer is dead, so this ends."""
    while take(reader, kept):
        pass


def bury_orphans(pid: int) -> None:
    """A zombie counts against the limit of processes; the command itself is left for end_all."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == pid:
            return
        os.waitpid(ended.si_pid, 0)


def kill_all() -> None:
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return  # the command was alone, and it is over


def end_all(pid: int) -> int:
    """Kill whatever lives in the box but us, wait for all of it, and give the command's own status.

    One kill(-1) is atomic against fork; what is killed comes to us, so no child left means nothing left.
    """
    status = 0
    kill_all()
    while True:
        try:
            ended, code = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if ended == pid:
            status = code
