"""Makes a layer's tar of what a build left in its upper folder. Nothing of it is trusted, and nobody of it is alive.

Kept are folders, regular files, links and what was deleted; sockets, pipes, owners and set-uid bits are not.
"""

import os
import stat
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from sandbox_worker.sandbox.images import whiteout

MOST_MEMBERS = 100_000
DEEPEST = 100


class TooLargeError(Exception):
    """There is more in it than a layer may hold."""


@dataclass
class Packing:
    tar: tarfile.TarFile
    limit: int
    """Bytes of the files, at their full length."""
    size: int = 0
    members: int = 0
    links: dict[int, str] = field(default_factory=dict)
    """By inode, the name under which a file with several names was packed."""

    def count(self, size: int) -> None:
        self.size += size
        self.members += 1
        if self.size > self.limit:
            raise TooLargeError(f"the files take more than {self.limit} bytes")
        if self.members > MOST_MEMBERS:
            raise TooLargeError(f"there are more than {MOST_MEMBERS} files and folders")


def pack_layer(tops: list[tuple[Path, str]], target: Path, limit: int) -> int:
    """Upper folders, each with the name of where it belongs ('' for the root); the bytes of the files in them.

    Raises TooLargeError."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        packing = Packing(tar, limit)
        for top, name in tops:
            fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                _folder(packing, fd, name, 0)
            finally:
                os.close(fd)
    return packing.size


def _folder(packing: Packing, fd: int, name: str, depth: int) -> None:
    if depth > DEEPEST:
        raise TooLargeError(f"folders are nested more than {DEEPEST} deep")
    if name:
        packing.tar.addfile(_member(packing, name, os.fstat(fd), tarfile.DIRTYPE))
    if name and whiteout.is_opaque(fd):
        packing.tar.addfile(tarfile.TarInfo(f"{name}/{whiteout.OPAQUE}"))
    for own in sorted(os.listdir(fd)):
        _entry(packing, fd, own, f"{name}/{own}" if name else own, depth)


def _entry(packing: Packing, folder: int, own: str, name: str, depth: int) -> None:
    found = os.stat(own, dir_fd=folder, follow_symlinks=False)
    if whiteout.is_whiteout(found):
        above = name.rpartition("/")[0]
        packing.count(0)
        packing.tar.addfile(tarfile.TarInfo(f"{above}/{whiteout.PREFIX}{own}".lstrip("/")))
    elif own.startswith(whiteout.PREFIX):
        raise TooLargeError(f"{name}: no file may have a name that begins with {whiteout.PREFIX}")
    elif stat.S_ISDIR(found.st_mode):
        fd = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            _folder(packing, fd, name, depth + 1)
        finally:
            os.close(fd)
    elif stat.S_ISLNK(found.st_mode):
        link = _member(packing, name, found, tarfile.SYMTYPE)
        link.linkname = os.readlink(own, dir_fd=folder)
        packing.tar.addfile(link)
    elif stat.S_ISREG(found.st_mode):
        _file(packing, folder, own, name, found)


def _file(packing: Packing, folder: int, own: str, name: str, found: os.stat_result) -> None:
    if found.st_nlink > 1 and (first := packing.links.setdefault(found.st_ino, name)) != name:
        link = _member(packing, name, found, tarfile.LNKTYPE)
        link.linkname = first
        packing.tar.addfile(link)
        return
    member = _member(packing, name, found, tarfile.REGTYPE)
    member.size = found.st_size
    packing.count(found.st_size)
    with os.fdopen(os.open(own, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
        packing.tar.addfile(member, file)


def _member(packing: Packing, name: str, found: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    packing.count(0)
    packing.tar.members = []  # type: ignore[attr-defined]  # it keeps what it has written, and there may be much
    member = tarfile.TarInfo(name)
    member.type = kind
    member.mode = stat.S_IMODE(found.st_mode) & 0o777
    member.mtime = int(found.st_mtime)
    return member
