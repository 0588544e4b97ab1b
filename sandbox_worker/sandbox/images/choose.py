"""The one place that decides who builds images for which kind of boxes."""

from collections.abc import Callable

from sandbox_worker.sandbox.base import Limits
from sandbox_worker.sandbox.choose import Wanted
from sandbox_worker.sandbox.findings import BUBBLEWRAP
from sandbox_worker.sandbox.images.errors import ImageStoreError
from sandbox_worker.sandbox.images.layered import LayeredBuilder
from sandbox_worker.sandbox.images.recipe import BuiltImage, ImageBuilder, Recipe
from sandbox_worker.sandbox.images.store import ImageStore


class NoBuilder(ImageBuilder):
    """Of boxes that start on the one image that their back end was given."""

    def __init__(self, about: str) -> None:
        self._about = about

    def knows(self, base: str) -> bool:
        return False

    def build(self, recipe: Recipe, limits: Limits, check: Callable[[], None]) -> BuiltImage:
        raise ImageStoreError(f"boxes of {self._about} build no images")


def builder_of(about: str, images: ImageStore, wanted: Wanted) -> ImageBuilder:
    """about: the back end's name."""
    if about == BUBBLEWRAP:
        return LayeredBuilder(images, allow_weaker=wanted.allow_weaker)
    return NoBuilder(about)
