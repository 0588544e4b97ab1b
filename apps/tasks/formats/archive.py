"""Task folders as archives. Packing gives the same bytes for the same files; unpacking trusts nothing of an archive.

Only folders and regular files come out, below the target, within the caps on counts and sizes; all else is refused.
"""

import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apps.tasks.formats.content import MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES, content_files
from apps.tasks.formats.errors import TaskFormatError

MAX_TAR_BYTES = MAX_TOTAL_BYTES + MAX_FILES * 4096
"""Content, headers and padding."""
MAX_NAME = 255
GZIP, ZIP, COMPRESSED = b"\x1f\x8b", b"PK\x03\x04", (b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")


@dataclass(frozen=True)
class Member:
    """A regular file of an archive, its name already checked."""

    path: str
    data: bytes
    executable: bool


def pack(folder: Path) -> bytes:
    """The files that belong to the task as a plain tar: sorted, without times, owners or odd modes."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in content_files(folder):
            member = tarfile.TarInfo(file.path)
            member.size, member.mode = file.size, 0o755 if file.executable else 0o644
            tar.addfile(member, io.BytesIO((folder / file.path).read_bytes()))
    return target.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    """Write the files of a tar, tar.gz or zip below a new or empty folder. Raises TaskFormatError."""
    if folder.is_symlink() or (folder.exists() and any(folder.iterdir())):
        raise TaskFormatError(str(folder), "", None, "the target is not an empty folder", "Name a new folder.")
    for member in members(data):
        path = folder / member.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(member.data)
        path.chmod(0o755 if member.executable else 0o644)


def members(data: bytes) -> list[Member]:
    """Every regular file, all checked before the first is handed out."""
    if len(data) > MAX_TAR_BYTES:
        raise refused("", len(data), f"the archive is larger than {MAX_TAR_BYTES} bytes", "Make the fixtures smaller.")
    try:
        found = list(zip_members(data) if data.startswith(ZIP) else tar_members(plain_tar(data)))
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError) as error:
        raise refused("", None, f"the archive cannot be read: {error}", "Pack it again as a tar or a zip.") from error
    names = {member.path for member in found}
    parents = {str(parent) for name in names for parent in Path(name).parents}
    if clash := sorted(names & parents):
        raise refused(clash[0], None, "is both a file and a folder", "Pack it again.")
    if not found:
        raise refused("", None, "the archive holds no file", "Pack the task folder itself.")
    return found


def plain_tar(data: bytes) -> bytes:
    """The tar without its compression, never more of it than the cap."""
    if data.startswith(COMPRESSED):
        raise refused("", None, "of the compressions only gzip is read", "Pack it as .tar, .tar.gz or .zip.")
    if not data.startswith(GZIP):
        return data
    inflater = zlib.decompressobj(wbits=31)
    plain = inflater.decompress(data, MAX_TAR_BYTES + 1)
    if len(plain) > MAX_TAR_BYTES:
        raise refused("", None, f"unpacks to more than {MAX_TAR_BYTES} bytes", "Make the fixtures smaller.")
    if not inflater.eof:
        raise refused("", None, "the compressed data ends too early", "Upload it again.")
    return plain


def tar_members(data: bytes) -> Iterator[Member]:
    caps = Caps()
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for member in tar:
            name = caps.admit(member.name, member.size, is_folder=member.isdir())
            if member.isdir():
                continue
            if not member.isreg() or member.sparse is not None:
                raise refused(member.name, None, "links and special files are refused", "Pack only regular files.")
            source = tar.extractfile(member)
            content = source.read() if source else b""
            if len(content) != member.size:
                raise refused(member.name, None, "ends too early", "Upload it again.")
            yield Member(name, content, bool(member.mode & 0o111))


def zip_members(data: bytes) -> Iterator[Member]:
    caps = Caps()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            mode, is_folder = info.external_attr >> 16, info.filename.endswith("/")
            name = caps.admit(info.filename, info.file_size, is_folder=is_folder)
            if info.flag_bits & 1:
                raise refused(info.filename, None, "is encrypted", "Pack it without a password.")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise refused(info.filename, None, "is packed in an unusual way", "Pack it as a plain zip.")
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise refused(info.filename, None, "links and special files are refused", "Pack only regular files.")
            if is_folder:
                continue
            with archive.open(info) as source:
                content = source.read(info.file_size + 1)
            if len(content) != info.file_size:
                raise refused(info.filename, None, "is not as large as it says", "Pack it again.")
            yield Member(name, content, bool(mode & 0o111))


class Caps:
    """Counts what an archive says of itself and refuses the first member too many."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.entries = 0
        self.total = 0

    def admit(self, name: str, size: int, *, is_folder: bool) -> str:
        """The name to write to."""
        self.entries, self.total = self.entries + 1, self.total + size
        if self.entries > 2 * MAX_FILES:
            raise refused(name, None, f"more than {2 * MAX_FILES} members", "Pack fixtures into one file.")
        if not 0 <= size <= MAX_FILE_BYTES or self.total > MAX_TOTAL_BYTES:
            raise refused(name, size, "the files are too large", f"Keep them below {MAX_TOTAL_BYTES} bytes in all.")
        checked = checked_name(name, is_folder=is_folder)
        if not is_folder and checked in self.seen:
            raise refused(name, None, "is there twice", "Pack it again.")
        self.seen.add(checked)
        return checked


def checked_name(name: str, *, is_folder: bool) -> str:
    trimmed = name.rstrip("/") if is_folder else name
    parts = [part for part in trimmed.split("/") if part != "."]
    unprintable = any(ord(letter) < 32 or ord(letter) == 127 or 0xD800 <= ord(letter) < 0xE000 for letter in name)
    if trimmed.startswith("/") or "\\" in name or unprintable:
        raise refused(name, None, "the name is not a plain relative path", "Rename it.")
    if ".." in parts or "" in parts or (not parts and not is_folder):
        raise refused(name, None, "the name leads out of the folder or nowhere", "Rename it.")
    if len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_NAME for part in parts):
        raise refused(name[:300], None, "the name is too long", "Shorten it.")
    return "/".join(parts)


def refused(member: str, value: object, problem: str, way_out: str) -> TaskFormatError:
    return TaskFormatError("archive", repr(member)[1:-1], value, problem, way_out)
