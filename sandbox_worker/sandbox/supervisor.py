"""PID 1 of a box: runs commands, carries files, and leaves nothing alive after a command.

Handed into the box as source and run by the host's own `python3 -I -S`, so it imports the standard library only, and
little of it: every import is paid for at each start. It shares its uid with the code that it watches, so it is not
dumpable, handles no signal that this code could send, and follows no link.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import stat
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FRAME = struct.Struct(">cI")
HEADER, DATA, FINISH = b"H", b"D", b"E"
CHUNK = 1 << 18
MAX_ENTRIES = 20_000
MAX_DEPTH = 64
_PR_SET_DUMPABLE = 4
_LIBC = ctypes.CDLL(None)


class RefusedError(Exception):
    """A file request that the box does not serve; the message goes to the host."""


class Channel:
    """Frames on the inherited socket. A request is a header, data, a finish; a reply is data, then a header."""

    def __init__(self, fd: int, child_ended: int) -> None:
        self.fd = fd
        self.child_ended = child_ended
        """Readable when a child may have ended."""
        self.finished = True

    def request(self) -> list[str]:
        _, payload = self._frame()
        self.finished = False
        return os.fsdecode(payload).split("\0")

    def data(self) -> bytes:
        """The next piece of the request's data; empty at its end."""
        if self.finished:
            return b""
        kind, payload = self._frame()
        self.finished = kind == FINISH
        return payload

    def drop_data(self) -> None:
        while not self.finished:
            self.data()

    def send(self, kind: bytes, payload: bytes) -> None:
        view = memoryview(FRAME.pack(kind, len(payload)) + payload)
        while view:
            view = view[os.write(self.fd, view) :]

    def reply(self, *fields: str) -> None:
        self.send(HEADER, os.fsencode("\0".join(fields)))

    def _frame(self) -> tuple[bytes, bytes]:
        kind, size = FRAME.unpack(self._exactly(FRAME.size))
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = os.read(self.fd, min(size - len(parts), 1 << 20))
            if not part:
                os._exit(0)  # the worker is gone, so the box goes too
            parts += part
        return bytes(parts)


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
        _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else its own /proc/self would belong to root
        first_to_be_killed()
        os.nice(5)  # the supervisor must get its turn among busy children
        for limit in limits.split(","):
            name, _, value = limit.partition("=")
            resource.setrlimit(getattr(resource, name), (int(value), int(value)))
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and ignoring is inherited
            signal.signal(number, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.set_blocking(1, True)
        os.closerange(3, 1024)
        os.chdir(folder)
        pairs = [entry.partition("=") for entry in environment if entry]
        os.execvpe(command[0], command, {name: value for name, _, value in pairs})
    except FileNotFoundError as error:
        code = 127
        os.write(1, f"{error.filename or command[0]}: not found\n".encode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        os.write(1, f"{command[0]}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(code)


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
        ready = dict(poll.poll(left * 1000 + 1))
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


def end_all(pid: int) -> int:
    """Kill whatever lives in the box but us, wait for all of it, and give the command's own status.

    One kill(-1) is atomic against fork; what is killed comes to us, so no child left means nothing left.
    """
    status = 0
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass  # the command alone, and it is over
    while True:
        try:
            ended, code = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if ended == pid:
            status = code


def write_file(channel: Channel, fields: list[str]) -> None:
    """Fields: path, mode."""
    size = put(fields[0], int(fields[1]), channel.data)
    channel.reply("ok", str(size))


def put(path: str, mode: int, more: Callable[[], bytes]) -> int:
    """Write a new regular file in place of whatever file or link was there."""
    folder, name = open_folder_of(path, make=True)
    size = 0
    try:
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            pass
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            while data := more():
                write_all(fd, data)
                size += len(data)
            os.fchmod(fd, mode & 0o777)
        except OSError:
            os.unlink(name, dir_fd=folder)
            raise
        finally:
            os.close(fd)
    finally:
        os.close(folder)
    return size


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_file(channel: Channel, fields: list[str]) -> None:
    """Fields: path, most bytes."""
    folder, name = open_folder_of(fields[0], make=False)
    try:
        size = send_file(channel, folder, name, int(fields[1]))
    finally:
        os.close(folder)
    channel.reply("ok", str(size))


def send_file(channel: Channel, folder: int, name: str, limit: int) -> int:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise RefusedError("no regular file")
        if found.st_size > limit:
            raise RefusedError(f"larger than {limit} bytes")
        sent = 0
        while data := os.read(fd, CHUNK):
            sent += len(data)
            if sent > limit:  # files of /proc say that they are empty
                raise RefusedError(f"larger than {limit} bytes")
            channel.send(DATA, data)
        return sent
    finally:
        os.close(fd)


def open_folder_of(path: str, *, make: bool) -> tuple[int, str]:
    """The folder of a file, reached without following a link, and the file's name in it."""
    parts = parts_of(path)
    return open_folders(parts[:-1], make=make), parts[-1]


def parts_of(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or not path.startswith("/"):
        raise RefusedError("no absolute path of a file")
    return parts


def open_folders(parts: list[str], *, make: bool) -> int:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open("/", flags)
    for part in parts:
        parent = fd
        try:
            if make:
                make_folder(part, parent)
            fd = os.open(part, flags, dir_fd=parent)
        finally:
            os.close(parent)
    return fd


def make_folder(name: str, parent: int) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=parent)
    except FileExistsError:
        pass


def snapshot(channel: Channel, fields: list[str]) -> None:
    """Fields: folder, most bytes. Replies with every file's bytes, then kind, mode, size and name of each entry."""
    folder, left = fields[0], int(fields[1])
    outer = open_folders(parts_of(folder), make=False)
    root = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=outer)
    os.close(outer)
    entries: list[str] = []
    try:
        walk(channel, root, "", 0, left, entries)
    finally:
        os.close(root)
    channel.reply("ok", *entries)


def walk(channel: Channel, folder: int, prefix: str, depth: int, left: int, entries: list[str]) -> int:
    """Send the regular files below a folder; the bytes that may still be sent."""
    if depth > MAX_DEPTH:
        raise RefusedError(f"folders nested more than {MAX_DEPTH} deep")
    for name in sorted(os.listdir(folder)):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            entries += ("d", str(found.st_mode & 0o777), "0", prefix + name)
            left = walk_folder(channel, folder, name, prefix, depth, left - 512, entries)
        elif stat.S_ISREG(found.st_mode):
            size = send_readable(channel, folder, name, found.st_mode, max(left, 0))
            entries += ("f", str(found.st_mode & 0o777), str(size), prefix + name)
            left -= 512 + size
        if left < 0 or len(entries) > 4 * MAX_ENTRIES:
            raise RefusedError(f"over the limit of a snapshot, or more than {MAX_ENTRIES} files")
    return left


def walk_folder(
    channel: Channel, folder: int, name: str, prefix: str, depth: int, left: int, entries: list[str]
) -> int:
    mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    os.chmod(name, mode | 0o700, dir_fd=folder)  # nobody else is alive, so it is still no link
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        return walk(channel, inner, f"{prefix}{name}/", depth + 1, left, entries)
    finally:
        os.fchmod(inner, mode)
        os.close(inner)


def send_readable(channel: Channel, folder: int, name: str, mode: int, limit: int) -> int:
    """Send a file, also one that its owner may not read."""
    if mode & 0o400:
        return send_file(channel, folder, name, limit)
    os.chmod(name, stat.S_IMODE(mode) | 0o400, dir_fd=folder)
    try:
        return send_file(channel, folder, name, limit)
    finally:
        os.chmod(name, stat.S_IMODE(mode), dir_fd=folder)


def restore(channel: Channel, fields: list[str]) -> None:
    """Fields: folder, then kind, mode, size and name of each entry; the data is the files' bytes in that order."""
    root, folders = fields[0], []
    for kind, mode, size, name in zip(*(iter(fields[1:]),) * 4):
        path = f"{root}/{name}"
        if kind == "d":
            os.close(open_folders(parts_of(path), make=True))
            folders.append((path, int(mode)))
        else:
            put(path, int(mode), Piece(channel, int(size)).data)
    for path, folder_mode in reversed(folders):  # last, for one may forbid to write into it
        parent, name = open_folder_of(path, make=False)
        os.chmod(name, folder_mode, dir_fd=parent)
        os.close(parent)
    channel.reply("ok")


class Piece:
    """The part of the request's data that belongs to one file; frames never reach over its end."""

    def __init__(self, channel: Channel, size: int) -> None:
        self.channel = channel
        self.left = size

    def data(self) -> bytes:
        if not self.left:
            return b""
        data = self.channel.data()
        self.left -= len(data)
        return data


def serve(channel: Channel) -> None:
    operations = {"run": run, "write": write_file, "read": read_file, "snapshot": snapshot, "restore": restore}
    channel.reply("ready")
    while True:
        operation, *fields = channel.request()
        try:
            operations[operation](channel, fields)
        except RefusedError as error:
            channel.drop_data()
            channel.reply("refused", str(error))
        except FileNotFoundError:
            channel.drop_data()
            channel.reply("missing", "there is no such file")
        except OSError as error:
            channel.drop_data()
            channel.reply("refused", error.strerror or str(error))
        channel.drop_data()


def main() -> None:
    fd = int(sys.argv[1])
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler would let the command end us
    os.closerange(3, fd)
    os.closerange(fd + 1, 4096)
    os.set_inheritable(fd, False)
    serve(Channel(fd, wake_up_on(signal.SIGCHLD)))


def wake_up_on(number: int) -> int:
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


if __name__ == "__main__":
    main()
