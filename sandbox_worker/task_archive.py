"""A task folder as a tar, read as hostile: regular files and folders only, inside bounds, nothing outside itself.

Knows which files an agent may see; tests and solution are kept apart from the first step on.
"""

import hashlib
import io
import posixpath
import tarfile
from dataclasses import dataclass

from sandbox_worker.errors import SandboxWorkerError

MOST_BYTES = 80 * 2**20
MOST_MEMBERS = 5000
_LONGEST_NAME = 1024
_DIGESTED_FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
_DIGESTED_FOLDERS = ("environment/", "tests/", "solution/", "steps/")


class TaskArchiveError(SandboxWorkerError):
    """The task cannot be used; says which file or setting, and why."""


class DamagedArchiveError(TaskArchiveError):
    """It is not what was imported."""


@dataclass(frozen=True)
class TaskFile:
    path: str
    """Relative to the task folder."""
    data: bytes
    executable: bool

    @property
    def mode(self) -> int:
        return 0o755 if self.executable else 0o644


def read_archive(data: bytes) -> dict[str, TaskFile]:
    """The files of a task folder by path. Raises TaskArchiveError."""
    if len(data) > MOST_BYTES:
        raise TaskArchiveError(f"the task's archive is larger than {MOST_BYTES} bytes")
    files: dict[str, TaskFile] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for number, member in enumerate(archive):
                if number >= MOST_MEMBERS:
                    raise TaskArchiveError(f"the task's archive has more than {MOST_MEMBERS} members")
                _read_member(archive, member, files)
    except (tarfile.TarError, UnicodeError, EOFError) as error:
        raise TaskArchiveError(f"the task's archive is no plain tar: {error}") from error
    return files


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, files: dict[str, TaskFile]) -> None:
    name = posixpath.normpath(member.name)
    if name.startswith("/") or name.split("/")[0] == ".." or "\0" in name or len(name) > _LONGEST_NAME:
        raise TaskArchiveError(f"the task's archive holds an unsafe name: {member.name[:200]!r}")
    if member.isdir():
        return
    if not member.isreg() or member.issparse():
        raise TaskArchiveError(f"{name}: neither a regular file nor a folder")
    if name in files:
        raise TaskArchiveError(f"{name}: twice in the task's archive")
    content = archive.extractfile(member)
    if content is None:
        raise TaskArchiveError(f"{name}: without content")
    body = content.read()
    if len(body) != member.size:
        raise TaskArchiveError(f"{name}: cut short")
    files[name] = TaskFile(path=name, data=body, executable=bool(member.mode & 0o100))


def check_digest(files: dict[str, TaskFile], digest: str) -> None:
    """Raises DamagedArchiveError."""
    if digest != content_digest(files):
        raise DamagedArchiveError(f"the task's archive does not match its digest {digest}")


def content_digest(files: dict[str, TaskFile]) -> str:
    """SHA-256 over the sorted records path NUL sha256 LF, as Harbor publishes it; not of how the tar was made."""
    records = sorted(
        f"{path}\0{hashlib.sha256(file.data).hexdigest()}\n".encode()
        for path, file in files.items()
        if path in _DIGESTED_FILES or path.startswith(_DIGESTED_FOLDERS)
    )
    return hashlib.sha256(b"".join(records)).hexdigest()


def pack(files: list[TaskFile]) -> bytes:
    """A tar that Box.restore takes: relative names, folders first."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in _folders(files):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for file in files:
            entry = tarfile.TarInfo(file.path)
            entry.size, entry.mode = len(file.data), file.mode
            archive.addfile(entry, io.BytesIO(file.data))
    return buffer.getvalue()


def _folders(files: list[TaskFile]) -> list[str]:
    found: set[str] = set()
    for file in files:
        parent = posixpath.dirname(file.path)
        while parent:
            found.add(parent)
            parent = posixpath.dirname(parent)
    return sorted(found)
