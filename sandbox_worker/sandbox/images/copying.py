"""The layers of COPY and WORKDIR, made without a box: tars of what is copied, put where the links of the image lead."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from sandbox_worker.sandbox.images.merged import Merged
from sandbox_worker.sandbox.images.recipe import RecipeFile
from wire.dockerfile import Copy, Folder, landed

_TAKEN = ("/proc", "/dev", "/sys")


def made_by(step: Copy | Folder, files: Mapping[str, RecipeFile], merged: Merged) -> dict[str, RecipeFile | None]:
    """Files by their absolute paths, and folders as None. Raises DockerfileError."""
    if isinstance(step, Folder):
        return {_place(step, merged, step.path): None}
    names = landed(step, files, lambda path: _is_folder(merged, path))
    return {_place(step, merged, path): files[name] for path, name in names.items()}


def write_tar(target: Path, made: Mapping[str, RecipeFile | None], merged: Merged) -> None:
    """Folders that are there keep their modes."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for folder in sorted({str(above) for path in made for above in PurePosixPath(path).parents}):
            if folder != "/" and folder not in made:
                tar.addfile(_folder(folder, merged))
        for path, file in sorted(made.items()):
            if file is None:
                tar.addfile(_folder(path, merged))
                continue
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(file.data), file.mode
            tar.addfile(member, io.BytesIO(file.data))


def _place(step: Copy | Folder, merged: Merged, path: str) -> str:
    """Raises DockerfileError."""
    place = merged.resolved(path)
    if f"{place}/".startswith(tuple(f"{taken}/" for taken in _TAKEN)):
        raise step.instruction.needs_docker(f"reaches into {place}, which every box has of its own")
    above = next((str(part) for part in PurePosixPath(place).parents if _is_file(merged, str(part))), "")
    if above or (isinstance(step, Folder) and _is_file(merged, place)):
        raise step.instruction.error(f"needs the folder {above or place}, where a file stands")
    if isinstance(step, Copy) and _is_folder(merged, place):
        raise step.instruction.error(f"cannot put a file in place of the folder {place}")
    return place


def _folder(path: str, merged: Merged) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type = tarfile.DIRTYPE
    found = merged.find(path)
    member.mode = found.status.st_mode & 0o777 if found else 0o755
    return member


def _is_folder(merged: Merged, path: str) -> bool:
    found = merged.find(path)
    return found is not None and found.is_folder


def _is_file(merged: Merged, path: str) -> bool:
    found = merged.find(path)
    return found is not None and not found.is_folder
