"""What an image of an Engine has in the working folder, from the tar that the Engine gives of it."""

import io
import tarfile
from collections.abc import Iterable

from sandbox_worker.sandbox.images.errors import BadImageError, WorkspaceError
from sandbox_worker.sandbox.images.workspace import Measure


class Pieces:
    """What comes in pieces, to be read as a file."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def read(self, size: int) -> bytes:
        parts = []
        while size > 0:
            if not self._rest and not (piece := next(self._pieces, b"")):
                break
            self._rest = self._rest or piece
            parts.append(self._rest[:size])
            size -= len(parts[-1])
            self._rest = self._rest[len(parts[-1]) :]
        return b"".join(parts)


def workspace_from(pieces: Iterable[bytes], workdir: str, limit: int) -> bytes:
    """At most limit bytes of files, by whole pages: a tar for Box.restore. Raises WorkspaceError, BadImageError."""
    target = io.BytesIO()
    try:
        with (
            tarfile.open(fileobj=Pieces(pieces), mode="r|") as source,  # type: ignore[call-overload]
            tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            _Taking(source, tar, workdir, limit).all()
    except (tarfile.TarError, UnicodeError, EOFError) as error:
        raise BadImageError(f"{workdir} of the image cannot be read: {error}") from error
    return target.getvalue()


class _Taking:
    def __init__(self, source: tarfile.TarFile, target: tarfile.TarFile, workdir: str, limit: int) -> None:
        self._source = source
        self._target = target
        self._workdir = workdir
        self._measure = Measure(workdir, limit)
        self._files: dict[str, bytes] = {}
        """For later members that are other names of the same file."""

    def all(self) -> None:
        for member in self._source:
            name = member.name.strip("/").partition("/")[
                2
            ]  # the folder itself comes first, and each name begins with it
            if name:
                self._take(member, name)

    def _take(self, member: tarfile.TarInfo, name: str) -> None:
        found = tarfile.TarInfo(name)
        found.mode = member.mode & 0o777
        if member.isdir() or member.issym():
            self._measure.add(0)
            found.type, found.linkname = member.type, member.linkname
            self._target.addfile(found)
        elif member.islnk() or member.isreg():
            data = self._data(member)
            found.size = len(data)
            self._target.addfile(found, io.BytesIO(data))
        else:
            raise WorkspaceError(f"{self._workdir}/{name} of the image is neither a file, nor a folder, nor a link")

    def _data(self, member: tarfile.TarInfo) -> bytes:
        if member.islnk():
            data = self._files.get(member.linkname)
            if data is None:
                raise BadImageError(f"{member.name[:200]!r} is a link to no file of the archive")
            self._measure.add(len(data))
            return data
        self._measure.add(member.size)
        content = self._source.extractfile(member)
        data = content.read() if content else b""
        self._files[member.name] = data
        return data
