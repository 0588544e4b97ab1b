"""Files of a box: written, read, packed and unpacked without following a link, and only while no command runs."""

from __future__ import annotations

import os
import stat

from sandbox_worker.sandbox.frames import CHUNK, DATA
from sandbox_worker.sandbox.supervisor.wire import Channel

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ENTRIES = 20_000
MAX_NAMES = 4 * 2**20
"""Bytes of all names together: a snapshot's header holds them."""
MAX_DEPTH = 64
PAGE = 4096
"""A file takes whole pages where it is restored."""


class RefusedError(Exception):
    """A file request that the box does not serve; the message goes to the host."""


def write_file(channel: Channel, fields: list[str]) -> None:
    """Fields: path, mode."""
    size = put(fields[0], int(fields[1]), channel.data)
    channel.reply("ok", str(size))


def put(path: str, mode: int, more: Callable[[], bytes]) -> int:
    """Write a new regular file in place of whatever file or link was there."""
    folder, name = open_folder_of(path, make=True)
    size = 0
    try:
        remove_file(name, folder)
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


def remove_file(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


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
        return


def snapshot(channel: Channel, fields: list[str]) -> None:
    """Fields: folder, most bytes. Replies with every file's bytes, then kind, mode, size and name of each entry."""
    outer = open_folders(parts_of(fields[0]), make=False)
    root = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=outer)
    os.close(outer)
    taken = Taken(int(fields[1]))
    try:
        walk(channel, root, "", 0, taken)
    finally:
        os.close(root)
    channel.reply("ok", *taken.entries)


class Taken:
    """What a snapshot has so far; refuses what would be too much."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes_left = limit
        self.names_left = MAX_NAMES
        self.entries: list[str] = []

    def add(self, kind: str, mode: int, size: int, name: str) -> None:
        self.entries += (kind, str(mode & 0o777), str(size), name)
        self.bytes_left -= -(-size // PAGE) * PAGE
        self.names_left -= len(os.fsencode(name))
        if len(self.entries) > 4 * MAX_ENTRIES:
            raise RefusedError(f"more than {MAX_ENTRIES} files and folders")
        if self.bytes_left < 0:
            raise RefusedError(f"the files take more than {self.limit} bytes")
        if self.names_left < 0:
            raise RefusedError(f"the names of the files take more than {MAX_NAMES} bytes")

    def names_in(self, folder: int) -> list[str]:
        """Sorted; never more of them than fit, for there may be millions."""
        names: list[str] = []
        with os.scandir(folder) as found:
            for entry in found:
                names.append(entry.name)
                if len(self.entries) // 4 + len(names) > MAX_ENTRIES:
                    raise RefusedError(f"more than {MAX_ENTRIES} files and folders")
        return sorted(names)


def walk(channel: Channel, folder: int, prefix: str, depth: int, taken: Taken) -> None:
    """Send the regular files below a folder."""
    if depth > MAX_DEPTH:
        raise RefusedError(f"folders nested more than {MAX_DEPTH} deep")
    for name in taken.names_in(folder):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            taken.add("d", found.st_mode, 0, prefix + name)
            walk_folder(channel, folder, name, prefix, depth, taken)
        elif stat.S_ISREG(found.st_mode):
            taken.add("f", found.st_mode, found.st_size, prefix + name)
            if send_readable(channel, folder, name, found.st_mode, found.st_size) != found.st_size:
                raise RefusedError("a file became shorter")


def walk_folder(channel: Channel, folder: int, name: str, prefix: str, depth: int, taken: Taken) -> None:
    mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    os.chmod(name, mode | 0o700, dir_fd=folder)  # nobody else is alive, so it is still no link
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        walk(channel, inner, f"{prefix}{name}/", depth + 1, taken)
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
    for start in range(1, len(fields), 4):
        kind, mode, size, name = fields[start : start + 4]
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
