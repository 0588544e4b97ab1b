"""Images for the tests: recipes of a few lines, and boxes on what comes of them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sandbox_worker.sandbox.base import Backend, Box, BoxSpec, Limits
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.images.layered import LayeredBuilder
from sandbox_worker.sandbox.images.recipe import BuiltImage, Recipe, RecipeFile
from sandbox_worker.sandbox.images.store import ImageStore
from sandbox_worker.sandbox.preflight import find_host
from wire.dockerfile import read_dockerfile

LIMITS = Limits(memory_bytes=128 * 2**20, disk_bytes=8 * 2**20, pids=32)


def recipe(lines: str, files: dict[str, bytes] | None = None, seconds: float = 60.0, workdir: str = "/app") -> Recipe:
    return Recipe(
        read_dockerfile(f"FROM assay/base\n{lines}" if not lines.startswith("FROM") else lines),
        {name: RecipeFile(data, executable=data.startswith(b"#!")) for name, data in (files or {}).items()},
        workdir,
        seconds,
    )


def build(
    store: ImageStore, lines: str, files: dict[str, bytes] | None = None, seconds: float = 60.0, workdir: str = "/app"
) -> BuiltImage:
    return LayeredBuilder(store).build(recipe(lines, files, seconds, workdir), LIMITS, lambda: None)


@contextmanager
def backend_on(store: ImageStore) -> Iterator[Backend]:
    backend = BubblewrapBackend(find_host(allow_weaker=False), store.lease)
    try:
        yield backend
    finally:
        backend.close()


@contextmanager
def box_on(store: ImageStore, image: BuiltImage, workdir: str = "/app") -> Iterator[Box]:
    with ExitStack() as closing:
        backend = closing.enter_context(backend_on(store))
        box = backend.start(BoxSpec(limits=LIMITS, workdir=workdir, image=image.digest))
        closing.callback(box.stop)
        box.restore(image.workspace, links=True)
        yield box
