"""What an image has in the working folder, as the tar that a box takes: folders, regular files and symbolic links."""

import io
import os
import stat
import tarfile

from sandbox_worker.sandbox.images.errors import WorkspaceError
from sandbox_worker.sandbox.images.merged import Found, Merged

MOST_ENTRIES = 20_000
"""As many as a box's working folder may have where it is carried on to the grader."""
_PAGE = 4096


def workspace_of(merged: Merged, workdir: str, limit: int) -> bytes:
    """At most limit bytes of files, by whole pages. Raises WorkspaceError."""
    top = merged.find(workdir)
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        if top is not None and top.is_folder:
            _Taking(tar, merged, workdir, limit).folder(top, "")
    return target.getvalue()


class Measure:
    """Of what is taken: so much, and no more."""

    def __init__(self, workdir: str, limit: int) -> None:
        self._workdir = workdir
        self._limit = limit
        self._bytes = 0
        self._entries = 0

    def add(self, size: int) -> None:
        """One entry of so many bytes. Raises WorkspaceError."""
        self._entries += 1
        self._bytes += -(-size // _PAGE) * _PAGE
        if self._entries > MOST_ENTRIES:
            raise WorkspaceError(f"{self._workdir} of the image has more than {MOST_ENTRIES} files and folders")
        if self._bytes > self._limit:
            raise WorkspaceError(f"the files in {self._workdir} of the image take more than {self._limit} bytes")


class _Taking:
    def __init__(self, tar: tarfile.TarFile, merged: Merged, workdir: str, limit: int) -> None:
        self._tar = tar
        self._merged = merged
        self._measure = Measure(workdir, limit)

    def folder(self, folder: Found, name: str) -> None:
        for own, found in self._merged.children(folder):
            inner = f"{name}/{own}" if name else own
            self._take(found, inner)
            if found.is_folder:
                self.folder(found, inner)

    def _take(self, found: Found, name: str) -> None:
        """What is neither a folder nor a link is a regular file: no layer holds anything else."""
        self._measure.add(found.status.st_size if found.is_file else 0)
        member = tarfile.TarInfo(name)
        member.mode = stat.S_IMODE(found.status.st_mode) & 0o777
        if found.is_folder:
            member.type = tarfile.DIRTYPE
            self._tar.addfile(member)
        elif found.is_link:
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(found.places[0])
            self._tar.addfile(member)
        else:
            member.size = found.status.st_size
            with found.places[0].open("rb") as file:
                self._tar.addfile(member, file)
