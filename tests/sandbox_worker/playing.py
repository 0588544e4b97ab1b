"""Plays one rollout with everything real but the policy's head."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox_worker.attempt import Attempt
from sandbox_worker.boxes import Boxes
from sandbox_worker.messages import Outcome, RolloutRequest
from sandbox_worker.policy_client import PolicyClient
from sandbox_worker.rollout import Means, Rollout
from sandbox_worker.sandbox.base import Backend, Limits
from sandbox_worker.sandbox.images.errors import MissingImageError
from sandbox_worker.sandbox.images.recipe import BuiltImage, ImageBuilder, Recipe
from sandbox_worker.sandbox.pool import WarmPool
from sandbox_worker.sandbox.starts import StartLimiter
from sandbox_worker.task_content import Tasks
from sandbox_worker.tokenization import Tokenizers
from wire.store import Store


class NoImages(ImageBuilder):
    """For tasks that need none."""

    def knows(self, base: str) -> bool:
        return False

    def build(self, recipe: Recipe, limits: Limits, check: Callable[[], None]) -> BuiltImage:
        raise MissingImageError(recipe.dockerfile.base)


@contextmanager
def means_of(
    backend: Backend, store: Store, *, outage_seconds: float = 5.0, images: ImageBuilder | None = None
) -> Iterator[Means]:
    client = PolicyClient(connections=8, outage_seconds=outage_seconds)
    try:
        yield Means(
            boxes=Boxes(WarmPool(backend, StartLimiter(4), most=0)),
            images=images or NoImages(),
            tasks=Tasks(store),
            tokenizers=Tokenizers(store),
            policy_client=client,
            incarnation="test",
        )
    finally:
        client.close()


def play(
    backend: Backend,
    store: Store,
    request: RolloutRequest,
    *,
    outage_seconds: float = 5.0,
    images: ImageBuilder | None = None,
) -> Outcome:
    with means_of(backend, store, outage_seconds=outage_seconds, images=images) as means:
        outcome = Rollout(Attempt(request), means).play()
    assert outcome is not None
    return outcome
