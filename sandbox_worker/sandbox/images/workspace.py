"""What an image has in the working folder, as the tar that a box takes: folders and regular files, nothing else."""

import io
import stat
import tarfile

from sandbox_worker.sandbox.images.errors import UnsupportedImageError
from sandbox_worker.sandbox.images.merged import Found, Merged

MOST_ENTRIES = 20_000
"""As many as a box's working folder may have where it is carried on to the grader."""
_PAGE = 4096


def workspace_of(merged: Merged, workdir: str, limit: int) -> bytes:
    """At most limit bytes of files, by whole pages. Raises UnsupportedImageError."""
    top = merged.find(workdir)
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        if top is not None and top.is_folder:
            _Taking(tar, merged, workdir, limit).folder(top, "")
    return target.getvalue()


class _Taking:
    def __init__(self, tar: tarfile.TarFile, merged: Merged, workdir: str, limit: int) -> None:
        self._tar = tar
        self._merged = merged
        self._workdir = workdir
        self._limit = limit
        self._bytes = 0
        self._entries = 0

    def folder(self, folder: Found, name: str) -> None:
        for own, found in self._merged.children(folder):
            inner = f"{name}/{own}" if name else own
            self._take(found, inner)
            if found.is_folder:
                self.folder(found, inner)

    def _take(self, found: Found, name: str) -> None:
        self._entries += 1
        if self._entries > MOST_ENTRIES:
            raise UnsupportedImageError(f"{self._workdir} has more than {MOST_ENTRIES} files and folders")
        member = tarfile.TarInfo(name)
        member.mode = stat.S_IMODE(found.status.st_mode) & 0o777
        if found.is_folder:
            member.type = tarfile.DIRTYPE
            self._tar.addfile(member)
        elif found.is_file:
            self._file(member, found)
        else:
            raise UnsupportedImageError(f"{self._workdir}/{name} is a link, and a working folder holds none")

    def _file(self, member: tarfile.TarInfo, found: Found) -> None:
        member.size = found.status.st_size
        self._bytes += -(-member.size // _PAGE) * _PAGE
        if self._bytes > self._limit:
            raise UnsupportedImageError(f"the files in {self._workdir} take more than {self._limit} bytes")
        with found.places[0].open("rb") as file:
            self._tar.addfile(member, file)
