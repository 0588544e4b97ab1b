"""One build on a Docker Engine: a container for each step, and an image of what it left. Failed, it leaves none."""

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sandbox_worker.sandbox import containers
from sandbox_worker.sandbox.base import BoxSpec
from sandbox_worker.sandbox.docker import ENGINE_ERRORS, DockerBackend, described, remove, started
from sandbox_worker.sandbox.images import folder as folders
from sandbox_worker.sandbox.images import locks
from sandbox_worker.sandbox.images.building import ENV, Building, require_startable, said_of, where
from sandbox_worker.sandbox.images.copying import made_by, write_tar
from sandbox_worker.sandbox.images.engine_images import EngineImages
from sandbox_worker.sandbox.images.engine_step import execute, spec_of
from sandbox_worker.sandbox.images.engine_tree import ContainerTree
from sandbox_worker.sandbox.images.errors import BuildError
from sandbox_worker.sandbox.images.recipe import RecipeFile
from wire.dockerfile import Copy, DockerfileError, Folder, Run, Step

log = logging.getLogger(__name__)

MOST_LAYERS = 120
"""An Engine mounts no more over each other."""


class EngineBuild:
    def __init__(
        self,
        backend: DockerBackend,
        images: EngineImages,
        folder: Path,
        building: Building,
        env: tuple[tuple[str, str], ...],
    ) -> None:
        """folder: the host's, for its locks and for tars. env: of the image that FROM names."""
        self._backend = backend
        self._api = backend.api
        self._images = images
        self._folder = folder
        self._building = building
        self._env = env
        self._committed: list[str] = []

    def make(self, chain: list[str], base: str) -> tuple[str, str]:
        """The Engine's id of the last image, and what the commands said; every step is found again from now on.

        Raises ImageError, SandboxError, docker's errors, or as check does."""
        steps = self._building.recipe.dockerfile.steps
        done, image = self._begun(chain, base)
        made, said = {}, []
        try:
            for number, step in enumerate(steps[done:], start=done + 1):
                self._building.check()
                log.info("building %s, step %d of %d: %s", chain[-1], number, len(steps), where(step.instruction))
                before = image
                image, words = self._step(image, step, chain[number])
                if image != base:  # which is not ours to name
                    made[chain[number]] = image
                if image != before:
                    said.append(said_of(where(step.instruction), words))
            self._images.finish(made)
        except BaseException:
            self._forget()
            raise
        return image, "\n".join(said)

    def _begun(self, chain: list[str], base: str) -> tuple[int, str]:
        """How many steps were made before, and the image after them."""
        for number in range(len(chain) - 1, 0, -1):
            if image := self._images.made(chain[number]):
                return number, image
        return 0, base

    def _forget(self) -> None:
        try:
            self._images.forget(self._committed)
        except ENGINE_ERRORS as error:
            log.warning("images of a failed build are left to the reaper: %s", error)

    def _step(self, image: str, step: Step, digest: str) -> tuple[str, str]:
        place = where(step.instruction)
        if len(described(self._api, image)["RootFS"]["Layers"]) >= MOST_LAYERS:
            raise BuildError(place, f"an image of more than {MOST_LAYERS} layers")
        if isinstance(step, Run):
            with locks.held(self._folder / "locks" / "builds", check=self._building.check):
                return self._run(image, step, digest)
        return self._copy(image, step, digest), ""

    def _copy(self, image: str, step: Copy | Folder, digest: str) -> str:
        """Into a container that is never started."""
        with idle_container(self._backend, self._building, image) as container:
            tree = ContainerTree(self._api, container)
            try:
                made = made_by(step, self._building.recipe.files, tree)
            except DockerfileError as error:
                raise BuildError(where(step.instruction), error.why) from error
            if all(file is None and tree.mode(path) is not None for path, file in made.items()):
                return image  # a folder that was there
            self._put(container, made, tree)
            return self._commit(container, digest, sum(len(file.data) for file in made.values() if file))

    def _put(self, container: str, made: dict[str, RecipeFile | None], tree: ContainerTree) -> None:
        place = folders.new_place(self._folder)
        try:
            write_tar(place / "files.tar", made, tree, is_layer=False)
            with (place / "files.tar").open("rb") as file:
                self._api.put_archive(container, "/", file)
        finally:
            folders.remove(place)

    def _run(self, image: str, step: Run, digest: str) -> tuple[str, str]:
        building = self._building
        spec = spec_of(building, step, tuple((dict(ENV) | dict(self._env) | dict(step.env)).items()))
        container = containers.create_writable(self._api, spec, image, self._backend.recipe, as_root=step.as_root)
        with ExitStack() as undo, ExitStack() as closing, ExitStack() as release:
            undo.callback(remove, self._api, container)
            release.enter_context(self._backend.holding(container))
            require_startable(building, ContainerTree(self._api, container), step)
            began = time.monotonic()
            box = started(self._api, container, spec, undo, release)
            closing.callback(box.stop)
            said, size = execute(self._api, container, box, building, step)
            building.seconds -= time.monotonic() - began
            return self._commit(container, digest, size), said

    def _commit(self, container: str, digest: str, size: int) -> str:
        self._committed.append(self._images.commit(container, digest, size))
        return self._committed[-1]


@contextmanager
def idle_container(backend: DockerBackend, building: Building, image: str) -> Iterator[str]:
    """To look into an image, or to put files over it. Raises docker's errors."""
    spec = BoxSpec(building.limits, label="build")
    container = containers.create_writable(backend.api, spec, image, backend.recipe, as_root=True)
    try:
        with backend.holding(container):
            yield container
    finally:
        remove(backend.api, container)
