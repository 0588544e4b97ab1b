"""Task folders as archives: the same bytes for the same files."""

import io
import tarfile
from pathlib import Path

from apps.tasks.formats.content import content_files


def pack(folder: Path) -> bytes:
    """The files that belong to the task as a plain tar: sorted, without times, owners or odd modes."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in content_files(folder):
            member = tarfile.TarInfo(file.path)
            member.size, member.mode = file.size, 0o755 if file.executable else 0o644
            tar.addfile(member, io.BytesIO((folder / file.path).read_bytes()))
    return target.getvalue()
