"""A box's working folder as a tar of folders and regular files; of an image's, symbolic links too.

Tars are made and read on the host."""

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sandbox_worker.sandbox.base import BoxFileError
from sandbox_worker.sandbox.channel import Reply

_FIELDS = 4
_MOST_MEMBERS = 100_000


@dataclass(frozen=True)
class Entry:
    name: str
    """Relative to the working folder."""
    mode: int
    data: bytes
    """Of a link, what it says."""
    kind: Literal["f", "d", "l"] = "f"
    """A regular file, a folder, a symbolic link: as the supervisor names them."""

    @property
    def fields(self) -> tuple[str, str, str, str]:
        """As the supervisor takes them."""
        return (self.kind, str(self.mode), str(len(self.data)), self.name)


def pack(reply: Reply) -> bytes:
    """From the supervisor's answer: ok, then kind, mode, size and name of each entry, the data in that order.

    Raises BoxFileError where the answer does not add up.
    """
    fields, offset = reply.fields[1:], 0
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for start in range(0, len(fields), _FIELDS):
            kind, mode, size, name = fields[start : start + _FIELDS]
            info = tarfile.TarInfo(name)
            info.mode = int(mode) & 0o777
            info.type = tarfile.DIRTYPE if kind == "d" else tarfile.REGTYPE
            info.size = int(size)
            tar.addfile(info, io.BytesIO(reply.data[offset : offset + info.size]))
            offset += info.size
    if offset != len(reply.data):
        raise BoxFileError("snapshot", "the files are not as long as they were said to be")
    return target.getvalue()


def unpack(content: bytes, *, links: bool = False) -> list[Entry]:
    """links: whether symbolic links are taken too, as they are: they lead nowhere but within the box.

    Raises BoxFileError for anything else but folders and regular files below the working folder."""
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            return [entry(tar, member, links=links) for member in bounded(tar)]
    except (tarfile.TarError, UnicodeError, EOFError) as error:
        raise BoxFileError("archive", f"no tar: {error}") from error


def bounded(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """A million names cost minutes of the worker's time before one of them is refused."""
    for number, member in enumerate(tar):
        if number >= _MOST_MEMBERS:
            raise BoxFileError("archive", f"more than {_MOST_MEMBERS} files and folders")
        yield member


def entry(tar: tarfile.TarFile, member: tarfile.TarInfo, *, links: bool) -> Entry:
    name = checked(member.name)
    if member.isdir():
        return Entry(name, member.mode & 0o777, b"", "d")
    if links and member.issym():
        return Entry(name, 0o777, member.linkname.encode("utf-8", "surrogateescape"), "l")
    if not member.isreg() or member.issparse():
        raise BoxFileError(member.name, "neither a folder nor a regular file")
    source = tar.extractfile(member)
    data = source.read() if source else b""
    if len(data) != member.size:
        raise BoxFileError(member.name, "cut short")
    return Entry(name, member.mode & 0o777, data)


def checked(name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or not parts:
        raise BoxFileError(name, "no name below the working folder")
    return "/".join(parts)
