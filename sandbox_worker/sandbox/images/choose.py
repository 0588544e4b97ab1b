"""The one place that decides who builds images for which kind of boxes."""

from sandbox_worker.sandbox.choose import Proved
from sandbox_worker.sandbox.findings import BUBBLEWRAP
from sandbox_worker.sandbox.images.layered import LayeredBuilder
from sandbox_worker.sandbox.images.recipe import ImageBuilder
from sandbox_worker.sandbox.images.store import ImageStore


def builder_of(proved: Proved, host: ImageStore) -> ImageBuilder:
    """Of the back end that was chosen. host: this host's images and locks."""
    if proved.about == BUBBLEWRAP:
        return LayeredBuilder(host, allow_weaker=bool(proved.backend.weaker))
    from sandbox_worker.sandbox.docker import DockerBackend  # noqa: PLC0415 (optional: bubblewrap needs no package)
    from sandbox_worker.sandbox.images.docker_builder import DockerBuilder  # noqa: PLC0415

    if not isinstance(proved.backend, DockerBackend):
        raise TypeError(f"nobody builds images for {proved.about}")
    return DockerBuilder(proved.backend, host)
