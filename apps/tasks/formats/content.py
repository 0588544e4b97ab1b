"""Which files belong to a task folder, and the digest of them by Harbor's rule.

No link is ever followed: a folder with links, or that is itself one, is refused.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from apps.tasks.formats.errors import TaskFormatError

SINGLE_FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
FOLDERS = ("environment", "tests", "solution", "steps")
IGNORED = ("__pycache__", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~")
"""What Harbor leaves out where the folder has no .gitignore."""
IGNORE_FILES = (".gitignore", ".harborignore")

MAX_FILES = 2_000
MAX_FILE_BYTES = 16 * 2**20
MAX_TOTAL_BYTES = 64 * 2**20
MAX_DEPTH = 20


@dataclass(frozen=True)
class ContentFile:
    """One file that belongs to the task."""

    path: str
    """Relative to the task folder, with slashes."""
    size: int
    executable: bool
    sha256: str


def content_files(folder: Path) -> tuple[ContentFile, ...]:
    """Every file that belongs to the task, sorted by path. Raises TaskFormatError."""
    if folder.is_symlink() or not folder.is_dir():
        raise TaskFormatError(
            str(folder), "", None, "the task folder must be a real folder, not a link", "Name it itself."
        )
    paths = sorted(belonging(folder), key=lambda path: path.relative_to(folder).as_posix())
    if len(paths) > MAX_FILES:
        raise TaskFormatError(
            str(folder), "", len(paths), f"more than {MAX_FILES} files", "Pack fixtures into one file."
        )
    if (total := sum(path.lstat().st_size for path in paths)) > MAX_TOTAL_BYTES:
        raise TaskFormatError(
            str(folder), "", total, f"larger than {MAX_TOTAL_BYTES} bytes", "Make the fixtures smaller."
        )
    return tuple(content_file(folder, path) for path in paths)


def digest_of(files: Iterable[ContentFile]) -> str:
    """SHA-256 over the sorted records 'path NUL sha256 LF': what Harbor publishes for the same folder."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.path):
        digest.update(f"{file.path}\0{file.sha256}\n".encode())
    return digest.hexdigest()


def belonging(folder: Path) -> Iterator[Path]:
    for name in SINGLE_FILES:
        if os.path.lexists(folder / name):
            yield folder / name
    for name in FOLDERS:
        if os.path.lexists(folder / name):
            yield from below(folder, folder / name, 1)
    if os.path.lexists(folder / ".gitignore"):
        raise ignore_file(".gitignore")


def below(root: Path, folder: Path, depth: int) -> Iterator[Path]:
    shown = folder.relative_to(root).as_posix()
    if folder.is_symlink() or not folder.is_dir():
        raise TaskFormatError(
            shown, "", None, "must be a real folder, not a link or a file", "Put the folder itself here."
        )
    if depth > MAX_DEPTH:
        raise TaskFormatError(shown, "", None, f"deeper than {MAX_DEPTH} folders", "Flatten it.")
    for entry in sorted(folder.iterdir()):
        if any(fnmatch(entry.name, pattern) for pattern in IGNORED):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from below(root, entry, depth + 1)
        elif entry.name == ".harborignore":
            raise ignore_file(entry.relative_to(root).as_posix())
        else:
            yield entry


def ignore_file(path: str) -> TaskFormatError:
    return TaskFormatError(path, "", None, "ignore files are not applied", "Delete what it excludes, and the file.")


def content_file(folder: Path, path: Path) -> ContentFile:
    shown, status = path.relative_to(folder).as_posix(), path.lstat()
    if not shown.isprintable():
        raise TaskFormatError(ascii(shown)[1:-1], "", None, "its name cannot be shown", "Rename it.")
    if not stat.S_ISREG(status.st_mode):
        raise TaskFormatError(
            shown, "", None, "links and special files are refused", "Put a regular file in its place."
        )
    if status.st_size > MAX_FILE_BYTES:
        raise TaskFormatError(shown, "", status.st_size, f"larger than {MAX_FILE_BYTES} bytes", "Make it smaller.")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return ContentFile(shown, status.st_size, bool(status.st_mode & 0o111), digest)
