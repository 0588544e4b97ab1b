"""Plays one rollout with everything real but the policy's head."""

from collections.abc import Iterator
from contextlib import contextmanager

from sandbox_worker.attempt import Attempt
from sandbox_worker.boxes import Boxes
from sandbox_worker.messages import Outcome, RolloutRequest
from sandbox_worker.policy_client import PolicyClient
from sandbox_worker.rollout import Means, Rollout
from sandbox_worker.sandbox.base import Backend
from sandbox_worker.task_content import Tasks
from sandbox_worker.tokenization import Tokenizers
from wire.store import Store


@contextmanager
def means_of(backend: Backend, store: Store, *, outage_seconds: float = 5.0) -> Iterator[Means]:
    client = PolicyClient(connections=8, outage_seconds=outage_seconds)
    try:
        yield Means(
            boxes=Boxes(backend, starts_at_once=4),
            tasks=Tasks(store),
            tokenizers=Tokenizers(store),
            policy_client=client,
            incarnation="test",
        )
    finally:
        client.close()


def play(backend: Backend, store: Store, request: RolloutRequest, *, outage_seconds: float = 5.0) -> Outcome:
    with means_of(backend, store, outage_seconds=outage_seconds) as means:
        outcome = Rollout(Attempt(request), means).play()
    assert outcome is not None
    return outcome
