"""The host's folder of images: what is in it appears whole, and what was left half made is cleared away by the next."""

import ctypes
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sandbox_worker.sandbox.images.errors import ImageStoreError
from sandbox_worker.sandbox.owner import Owner

PARTS = ("layers", "records", "names", "seals", "hosts", "locks", "tmp", "scratch")
_PASSABLE = 0o711
_LIBC = ctypes.CDLL(None, use_errno=True)


def open_folder(folder: Path) -> Path:
    """Made where it is missing. Raises ImageStoreError where the boxes could not reach it."""
    try:
        folder.mkdir(mode=_PASSABLE, parents=True, exist_ok=True)
        for name in PARTS:
            (folder / name).mkdir(mode=_PASSABLE, exist_ok=True)
            (folder / name).chmod(_PASSABLE)
        folder.chmod(_PASSABLE)
    except OSError as error:
        raise ImageStoreError(f"images cannot be kept in {folder} ({error.strerror}): set ASSAY_IMAGES") from error
    folder = folder.resolve()
    if os.geteuid() == 0:
        require_passable(folder)
    clear(folder)
    return folder


def require_passable(folder: Path) -> None:
    """Each box has a uid of its own, and overlays are found by their path. Raises ImageStoreError."""
    for above in (folder, *folder.parents):
        if not above.stat().st_mode & stat.S_IXOTH:
            raise ImageStoreError(
                f"images cannot be kept in {folder}, for boxes may not pass {above}: chmod o+x {above}, or set"
                " ASSAY_IMAGES to another folder"
            )


def clear(folder: Path) -> None:
    """What dead processes left half made."""
    for left in left_half_made(folder):
        remove(left)


def left_half_made(folder: Path) -> list[Path]:
    """By processes that are certainly dead."""
    owners = ((path, Owner.parse(path.name.partition(".")[0])) for path in (folder / "tmp").iterdir())
    return [path for path, owner in owners if owner is not None and owner.is_dead()]


@contextmanager
def made_beside(folder: Path, target: Path) -> Iterator[Path]:
    """A new folder that gets its final name when the block is done; another's of the same name is as good."""
    place = new_place(folder)
    try:
        yield place
        place.chmod(0o755)
        sync(place)
        with suppress(FileExistsError):
            rename_new(place, target)
    finally:
        remove(place)


def rename_new(place: Path, target: Path) -> None:
    try:
        place.rename(target)
    except OSError as error:
        if not target.exists():
            raise
        raise FileExistsError(target) from error
    fd = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def new_place(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{Owner.this_process().name}.", dir=folder / "tmp"))


def write_whole(folder: Path, target: Path, data: bytes) -> None:
    beside = new_place(folder) / "file"
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        remove(beside.parent)


def remove(path: Path) -> None:
    """Nothing there is no error; a folder that its owner may not write is removed all the same."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)


def sync(folder: Path) -> None:
    """One call for all its files."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _LIBC.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), "syncfs")
    finally:
        os.close(fd)
