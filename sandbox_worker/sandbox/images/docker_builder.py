"""Builds recipes on a Docker Engine, in our own boxes: the Engine's builder can be neither bounded nor cancelled."""

import platform
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import Limits
from sandbox_worker.sandbox.docker import ENGINE_ERRORS, DockerBackend, described
from sandbox_worker.sandbox.images import locks
from sandbox_worker.sandbox.images.archive_file import MACHINES
from sandbox_worker.sandbox.images.building import (
    Building,
    chain_of,
    is_default,
    require_programs,
    require_workdir,
)
from sandbox_worker.sandbox.images.engine_build import EngineBuild, idle_container
from sandbox_worker.sandbox.images.engine_images import MOST_BYTES, EngineImages
from sandbox_worker.sandbox.images.engine_tree import ContainerTree
from sandbox_worker.sandbox.images.engine_workspace import workspace_from
from sandbox_worker.sandbox.images.errors import (
    BadImageError,
    ImageError,
    ImageStoreError,
    MissingImageError,
    WorkspaceError,
    WrongArchitectureError,
)
from sandbox_worker.sandbox.images.failures import Failures
from sandbox_worker.sandbox.images.recipe import BuiltImage, ImageBuilder, Recipe
from sandbox_worker.sandbox.images.store import ImageStore

_MEND = "docker load it or docker pull it on this host (Assay asks no registry by itself)"
_KEPT_BYTES = 64 * 2**20
_EMPTY_TAR = bytes(10_240)


@dataclass(frozen=True)
class Base:
    """What FROM begins with."""

    id: str
    env: tuple[tuple[str, str], ...]
    size: int


class DockerBuilder(ImageBuilder):
    """Safe for many threads; builds of all processes of a host wait for each other."""

    taken = layout.TAKEN_OF_IMAGES

    def __init__(self, backend: DockerBackend, host: ImageStore, *, most_bytes: int = MOST_BYTES) -> None:
        """host: whose folder has the locks of this host. most_bytes: of what builds leave on the Engine."""
        self._api = backend.api
        self._backend = backend
        self._host = host
        self._images = EngineImages(self._api, backend.recipe.owner, host, most_bytes=most_bytes)
        self._failures = Failures()
        self._lock = threading.Lock()
        self._workspaces: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()

    def knows(self, base: str) -> bool:
        return not is_default(base)

    def build(self, recipe: Recipe, limits: Limits, check: Callable[[], None]) -> BuiltImage:
        """The image is the Engine's: its id is the digest."""
        require_workdir(recipe.workdir, self.taken)
        building = Building(recipe, limits, check, recipe.seconds)
        with engine_errors():
            base = self.base(recipe.dockerfile.base)
            chain = chain_of(base.id, recipe)
            image, said = self._image(building, chain, base)
            workspace = self._workspace(building, image)
            size = int(described(self._api, image)["Size"]) - base.size
        return BuiltImage(image, base.env, workspace, max(0, size), said)

    def base(self, name: str) -> Base:
        """Raises MissingImageError, WrongArchitectureError, BadImageError."""
        found = self._images.named(self._backend.image if is_default(name) else name)
        if found is None:
            raise MissingImageError(name, _MEND)
        machine = MACHINES.get(found["Architecture"], found["Architecture"])
        if machine != platform.machine():
            raise WrongArchitectureError(name, machine, platform.machine())
        if volumes := found["Config"].get("Volumes"):
            raise BadImageError(f"the image {name!r} has volumes, which boxes have not: {', '.join(sorted(volumes))}")
        return Base(found["Id"], env_of(found), int(found["Size"]))

    def _image(self, building: Building, chain: list[str], base: Base) -> tuple[str, str]:
        if len(chain) == 1:
            return base.id, ""
        self._images.use(chain[1:])
        said = ""
        image = self._images.made(chain[-1])
        if image is None:
            with locks.held(self._host.lock_path(chain[-1], "build"), check=building.check):
                image = self._images.made(chain[-1])
                if image is None:
                    image, said = self._build_unless_it_failed(building, chain, base)
        return image, said

    def _build_unless_it_failed(self, building: Building, chain: list[str], base: Base) -> tuple[str, str]:
        key = (chain[-1], building.limits, building.recipe.seconds)
        self._failures.raise_again(key)
        build = EngineBuild(self._backend, self._images, self._host.folder, building, base.env)
        try:
            return build.make(chain, base.id)
        except ImageError as error:
            self._failures.remember(key, error)
            raise

    def _workspace(self, building: Building, image: str) -> bytes:
        """Of an image that was found to have the programs that it needs; taken once."""
        key = (image, building.recipe.workdir, building.limits.disk_bytes)
        with self._lock:
            if (known := self._workspaces.get(key)) is None:
                known = self._taken(building, image)
                self._workspaces[key] = known
            self._workspaces.move_to_end(key)
            while len(self._workspaces) > 1 and sum(map(len, self._workspaces.values())) > _KEPT_BYTES:
                self._workspaces.popitem(last=False)
            return known

    def _taken(self, building: Building, image: str) -> bytes:
        workdir = building.recipe.workdir
        with idle_container(self._backend, building, image) as container:
            tree = ContainerTree(self._api, container)
            require_programs(tree)
            if (place := tree.resolved(workdir)) != workdir:
                raise WorkspaceError(
                    f"links lead from {workdir} to {place} in the image: name that as environment.workdir"
                )
            mode = tree.mode(workdir)
            if mode is None:
                return _EMPTY_TAR
            if not stat.S_ISDIR(mode):
                raise WorkspaceError(f"{workdir} of the image is no folder")
            with tree.archive(workdir) as pieces:
                return workspace_from(pieces, workdir, building.limits.disk_bytes)


def env_of(image: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    pairs = [str(pair).partition("=") for pair in image["Config"].get("Env") or []]
    return tuple((name, value) for name, _, value in pairs)


@contextmanager
def engine_errors() -> Iterator[None]:
    """What the Engine refuses or breaks is our side's."""
    try:
        yield
    except ENGINE_ERRORS as error:
        raise ImageStoreError(f"the Docker Engine did not build: {error}") from error
