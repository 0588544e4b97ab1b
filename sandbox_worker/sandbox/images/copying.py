"""The layers of COPY and WORKDIR, made without a box: tars of what is copied, put where the links of the image lead."""

import io
import stat
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from sandbox_worker.sandbox.images.building import Tree
from sandbox_worker.sandbox.images.recipe import RecipeFile
from wire.dockerfile import Copy, Folder, landed

_TAKEN = ("/proc", "/dev", "/sys")


def made_by(step: Copy | Folder, files: Mapping[str, RecipeFile], tree: Tree) -> dict[str, RecipeFile | None]:
    """Files by their absolute paths, and folders as None. Raises DockerfileError."""
    if isinstance(step, Folder):
        return {_place(step, tree, step.path): None}
    names = landed(step, files, lambda path: _is_folder(tree, path))
    return {_place(step, tree, path): files[name] for path, name in names.items()}


def write_tar(target: Path, made: Mapping[str, RecipeFile | None], tree: Tree, *, is_layer: bool) -> None:
    """Folders that are there keep their modes: a layer says them again, and what goes into a container does not."""
    above = {str(above) for path in made for above in PurePosixPath(path).parents} - {"/"}
    folders = above | {path for path, file in made.items() if file is None}
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for folder in sorted(folders):
            if is_layer or tree.mode(folder) is None:
                tar.addfile(_folder(folder, tree))
        for path, file in sorted((path, file) for path, file in made.items() if file is not None):
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(file.data), file.mode
            tar.addfile(member, io.BytesIO(file.data))


def _place(step: Copy | Folder, tree: Tree, path: str) -> str:
    """Raises DockerfileError."""
    place = tree.resolved(path)
    if f"{place}/".startswith(tuple(f"{taken}/" for taken in _TAKEN)):
        raise step.instruction.needs_docker(f"reaches into {place}, which every box has of its own")
    above = next((str(part) for part in PurePosixPath(place).parents if _is_file(tree, str(part))), "")
    if above or (isinstance(step, Folder) and _is_file(tree, place)):
        raise step.instruction.error(f"needs the folder {above or place}, where a file stands")
    if isinstance(step, Copy) and _is_folder(tree, place):
        raise step.instruction.error(f"cannot put a file in place of the folder {place}")
    return place


def _folder(path: str, tree: Tree) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type = tarfile.DIRTYPE
    mode = tree.mode(path)
    member.mode = 0o755 if mode is None else mode & 0o777
    return member


def _is_folder(tree: Tree, path: str) -> bool:
    mode = tree.mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def _is_file(tree: Tree, path: str) -> bool:
    mode = tree.mode(path)
    return mode is not None and not stat.S_ISDIR(mode)
