"""Unpacks a layer's tar, which is hostile, into a folder of its own: no link is ever followed, nothing is left outside.

What a layer has becomes readable by every box; owners, set-uid bits and attributes are not taken over.
"""

import errno
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Self

from sandbox_worker.sandbox.images import whiteout
from sandbox_worker.sandbox.images.errors import BadImageError

MOST_MEMBERS = 200_000
LONGEST_NAME = 4096
_LONGEST_HEAD = 1 << 20
_HEADS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
"""What is said before a member of what belongs to it: read into memory, whole."""
_DEEPEST = 120
_CHUNK = 1 << 20
_LEFT_OUT = ("dev", "proc", "sys")
"""Every box has its own."""
_OURS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EROFS)
"""No archive's fault."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Measured:
    """A stream that ends with an error where it gives more than was agreed: a small archive may hold a large one."""

    def __init__(self, source: IO[bytes], most: int) -> None:
        self._source = source
        self._left = most
        self._most = most

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(_CHUNK if size < 0 else min(size, _CHUNK))
        self._left -= len(data)
        if self._left < 0:
            raise BadImageError(f"the archive is larger than {self._most} bytes when unpacked")
        return data


class Member(tarfile.TarInfo):
    """Refused before what it says of its length is believed."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Raises BadImageError, and tarfile's errors."""
        found = super().frombuf(buf, encoding, errors)
        if found.type in _HEADS and found.size > _LONGEST_HEAD:
            raise BadImageError(f"the archive says more than {_LONGEST_HEAD} bytes of one of its members")
        if found.type == tarfile.GNUTYPE_SPARSE:
            raise BadImageError(f"{found.name[:200]!r} is sparse: write the archive without --sparse")
        return found


@dataclass
class Unpacking:
    root: int
    """The folder, open."""
    owner: int | None
    """Whose everything shall be; None: whoever unpacks."""
    size: int = 0
    folders: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Mode and time of each, set last: one may forbid to write into it."""


def unpack_layer(source: IO[bytes], folder: str, *, most: int, owner: int | None = None) -> int:
    """A plain tar; the bytes of its files. Raises BadImageError."""
    root = os.open(folder, _FOLDER)
    unpacking = Unpacking(root, owner)
    try:
        with tarfile.open(fileobj=Measured(source, most), mode="r|", tarinfo=Member) as tar:  # type: ignore[call-overload]
            for number, member in enumerate(_members(tar)):
                if number >= MOST_MEMBERS:
                    raise BadImageError(f"the archive has more than {MOST_MEMBERS} members")
                _take(unpacking, tar, member)
        for name in sorted(unpacking.folders, reverse=True):
            _finish(unpacking, name)
        _give(unpacking, root)
    except (tarfile.TarError, UnicodeError, EOFError, ValueError, OverflowError) as error:
        raise BadImageError(f"no plain tar: {error}") from error
    finally:
        os.close(root)
    return unpacking.size


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Forgotten one by one, for there may be many."""
    while (member := tar.next()) is not None:
        yield member
        tar.members = []  # type: ignore[attr-defined]


def parts_of(name: str) -> list[str]:
    """Raises BadImageError for a name that leads out, or that no file system can have."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or len(name) > LONGEST_NAME or len(parts) > _DEEPEST:
        raise BadImageError(f"the archive holds an unsafe name: {name[:200]!r}")
    return parts


def _take(unpacking: Unpacking, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    parts = parts_of(member.name)
    if not parts or (parts[0] in _LEFT_OUT and len(parts) > 1):
        return
    try:
        folder = _open(unpacking, parts[:-1])
        try:
            _put(unpacking, tar, member, folder, parts)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno in _OURS:
            raise
        raise BadImageError(f"{member.name[:200]!r} cannot be unpacked: {error.strerror}") from error


def _put(unpacking: Unpacking, tar: tarfile.TarFile, member: tarfile.TarInfo, folder: int, parts: list[str]) -> None:
    name = parts[-1]
    if name == whiteout.OPAQUE:
        whiteout.make_opaque(folder)
    elif name.startswith(whiteout.PREFIX):
        _mark_deleted(unpacking, name.removeprefix(whiteout.PREFIX), folder)
    elif member.isdir():
        _make_folder(name, folder)
        unpacking.folders["/".join(parts)] = (member.mode, int(member.mtime))
    else:
        _make_way(name, folder)
        if member.issym():
            os.symlink(_target(member), name, dir_fd=folder)
            _give_link(unpacking, name, folder)
        elif member.islnk():
            _link(unpacking, member, name, folder)
        elif member.isreg() and not member.issparse():
            _write(unpacking, tar, member, name, folder)
        else:
            raise BadImageError(f"{member.name[:200]!r} is neither a file, nor a folder, nor a link")


def _open(unpacking: Unpacking, parts: list[str]) -> int:
    """A folder of the layer, made where it is missing; the caller closes it."""
    fd = os.dup(unpacking.root)
    for depth, part in enumerate(parts, start=1):
        try:
            if _make_folder(part, fd):
                unpacking.folders["/".join(parts[:depth])] = (0o755, 0)
            inner = os.open(part, _FOLDER, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _make_folder(name: str, folder: int) -> bool:
    """False where there is one, or what cannot be gone into."""
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        return False
    return True


def _make_way(name: str, folder: int) -> None:
    """A later member stands for an earlier one of its name, but for a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def _mark_deleted(unpacking: Unpacking, name: str, folder: int) -> None:
    if name in ("", ".", "..") or name.startswith(whiteout.PREFIX):
        raise BadImageError(f"a mark of deletion without a name: {name!r}")
    _make_way(name, folder)
    whiteout.make_whiteout(name, folder)
    _give_link(unpacking, name, folder)


def _target(member: tarfile.TarInfo) -> str:
    if not member.linkname or "\0" in member.linkname or len(member.linkname) >= LONGEST_NAME:
        raise BadImageError(f"{member.name[:200]!r} is a link to nothing")
    return member.linkname


def _link(unpacking: Unpacking, member: tarfile.TarInfo, name: str, folder: int) -> None:
    """Only to a regular file that this layer has brought."""
    parts = parts_of(_target(member))
    source = _open(unpacking, parts[:-1]) if parts else -1
    try:
        if not parts or not _is_file(parts[-1], source):
            raise BadImageError(f"{member.name[:200]!r} is a link to no file of the archive")
        os.link(parts[-1], name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
    finally:
        if source >= 0:
            os.close(source)


def _is_file(name: str, folder: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _write(unpacking: Unpacking, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, folder: int) -> None:
    content = tar.extractfile(member)
    fd = os.open(name, _NEW, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        left = member.size
        while content is not None and left > 0 and (data := content.read(min(left, _CHUNK))):
            file.write(data)
            left -= len(data)
        if left:
            raise BadImageError(f"{member.name[:200]!r} is cut short")
        file.flush()
        _give(unpacking, fd)
        os.fchmod(fd, _readable(member.mode))
        os.utime(fd, (int(member.mtime), int(member.mtime)))
    unpacking.size += member.size


def _finish(unpacking: Unpacking, name: str) -> None:
    mode, mtime = unpacking.folders[name]
    fd = _open(unpacking, name.split("/"))
    try:
        _give(unpacking, fd)
        sticky = 0o1000 if mode & 0o002 else 0  # as /tmp has it
        os.fchmod(fd, mode & 0o777 | 0o755 | sticky)
        os.utime(fd, (mtime, mtime))
    finally:
        os.close(fd)


def _give(unpacking: Unpacking, fd: int) -> None:
    if unpacking.owner is not None:
        os.fchown(fd, unpacking.owner, unpacking.owner)


def _give_link(unpacking: Unpacking, name: str, folder: int) -> None:
    if unpacking.owner is not None:
        os.chown(name, unpacking.owner, unpacking.owner, dir_fd=folder, follow_symlinks=False)


def _readable(mode: int) -> int:
    """By every box, for each has an own uid; what its owner may run, all may."""
    return mode & 0o777 | 0o644 | (0o111 if mode & 0o111 else 0)
