"""Images that this host's builds made on its Engine: found by what they were made of, the least used let go of.

Each has the digest of its recipe as its name. What has none was not finished, and is its builder's until it is dead.
"""

import logging
import time
from typing import Any

from docker import APIClient
from docker.errors import APIError, ImageNotFound, NotFound

from sandbox_worker.sandbox import containers
from sandbox_worker.sandbox.docker import described
from sandbox_worker.sandbox.images import locks
from sandbox_worker.sandbox.images.store import ImageStore
from sandbox_worker.sandbox.owner import Owner
from wire.dockerfile import IMAGE_NAME

log = logging.getLogger(__name__)

RECIPE = "assay.recipe"
_BYTES = "assay.bytes"
_REPOSITORY = "assay/recipe"
MOST_BYTES = 20 * 2**30
_IDLE_SECONDS = 600.0
"""An image that was asked for so recently is about to be used."""
_CONFLICT = 409


class EngineImages:
    """Safe for many threads and processes of the host."""

    def __init__(self, api: APIClient, owner: Owner, host: ImageStore, *, most_bytes: int = MOST_BYTES) -> None:
        """host: whose folder has the locks that all builders of the host share."""
        self._api = api
        self._owner = owner
        self._host = host
        self._most_bytes = most_bytes

    def named(self, name: str) -> dict[str, Any] | None:
        """What the Engine says of an image; None where it has none of this name. Raises docker's errors."""
        if not IMAGE_NAME.fullmatch(name):
            return None
        try:
            return described(self._api, name)
        except ImageNotFound:
            return None
        except APIError as error:
            if error.is_client_error():  # no name at all
                return None
            raise

    def made(self, digest: str) -> str | None:
        """The Engine's id of the image that was made by this recipe."""
        found = self.named(_name_of(digest))
        return str(found["Id"]) if found else None

    def commit(self, container: str, digest: str, size: int) -> str:
        """The id of an image of a container, without a name yet."""
        labels = {
            RECIPE: digest,
            _BYTES: str(size),
            containers.BUILDER: self._owner.name,
            containers.OWNER: "",  # containers that others make of it are not ours
            containers.LABEL: "",
        }
        made: dict[str, Any] = self._api.commit(container, pause=False, conf={"Labels": labels})
        return str(made["Id"])

    def finish(self, made: dict[str, str]) -> None:
        """Images by their digests: from now on they are found again."""
        for digest, image in made.items():
            repository, _, tag = _name_of(digest).partition(":")
            self._api.tag(image, repository, tag, force=True)
        self.evict()

    def forget(self, images: list[str]) -> None:
        """Of a build that failed, the last first."""
        for image in reversed(images):
            self._remove(image)

    def use(self, chain: list[str]) -> None:
        """A later step is let go of before those that it stands on."""
        for digest in reversed(chain):
            self._host.lock_path(digest, "build").touch()

    def evict(self) -> None:
        """Let go of images, the longest unused first, until the rest is small enough; never of one in use."""
        with locks.held(self._host.folder / "locks" / "evict"):
            kept = {found["Labels"][RECIPE]: int(found["Labels"][_BYTES]) for found in self._listed()}
            for digest in sorted(kept, key=self._used_at):
                if sum(kept.values()) <= self._most_bytes:
                    return
                if time.time() - self._used_at(digest) > _IDLE_SECONDS and self._remove(_name_of(digest)):
                    log.info("the image of %s was let go of", digest)
                    del kept[digest]

    def _listed(self) -> list[dict[str, Any]]:
        return list(self._api.images(name=_REPOSITORY, filters={"label": RECIPE}))

    def _used_at(self, digest: str) -> float:
        path = self._host.lock_path(digest, "build")
        return path.stat().st_mtime if path.exists() else 0.0

    def _remove(self, image: str) -> bool:
        """False where a container or another image needs it."""
        try:
            self._api.remove_image(image, noprune=True)
        except NotFound:
            return True
        except APIError as error:
            if error.status_code == _CONFLICT:
                return False
            raise
        return True


def _name_of(digest: str) -> str:
    return f"{_REPOSITORY}:{digest.removeprefix('sha256:')}"
