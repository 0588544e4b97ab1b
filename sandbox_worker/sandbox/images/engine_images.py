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
        """Recipes that are about to be used, or to be built."""
        for digest in chain:
            self._host.lock_path(digest, "build").touch()

    def evict(self) -> None:
        """Let go of images, the longest unused first, until the rest is small enough.

        Never of one that a container or a later step stands on."""
        with locks.held(self._host.folder / "locks" / "evict"):
            kept = {str(found["Id"]): found for found in self._listed()}
            todo = sorted(kept, key=lambda image: self._used_at(kept[image]))
            while sum(_bytes_of(found) for found in kept.values()) > self._most_bytes:
                parents = {found["ParentId"] for found in kept.values()}
                image = next((image for image in todo if image not in parents), None)
                if image is None:
                    return
                todo.remove(image)
                if self._let_go(kept[image]):
                    del kept[image]

    def _let_go(self, found: dict[str, Any]) -> bool:
        if time.time() - self._used_at(found) < _IDLE_SECONDS:
            return False
        if not all(self._remove(name) for name in found["RepoTags"]):
            return False
        log.info("the image of %s was let go of", found["Labels"][RECIPE])
        return True

    def _listed(self) -> list[dict[str, Any]]:
        return list(self._api.images(name=_REPOSITORY, filters={"label": RECIPE}))

    def _used_at(self, found: dict[str, Any]) -> float:
        """By any of its recipes."""
        digests = [name.removeprefix(f"{_REPOSITORY}:") for name in found["RepoTags"]]
        paths = [self._host.lock_path(f"sha256:{digest}", "build") for digest in digests]
        return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)

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


def _bytes_of(found: dict[str, Any]) -> int:
    return int(found["Labels"][_BYTES])


def _name_of(digest: str) -> str:
    return f"{_REPOSITORY}:{digest.removeprefix('sha256:')}"
