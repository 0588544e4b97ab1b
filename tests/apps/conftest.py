"""A store, a policy server and empty queues for each test that asks for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.apps.factories import drain_queue
from tests.apps.policy_server import PolicyServer
from wire.store import FolderStore


@pytest.fixture
def store(tmp_path: Path, settings: Settings) -> FolderStore:
    """The installation's object store, in a folder of this test."""
    settings.ASSAY_STORE_URL = str(tmp_path / "store")
    return FolderStore(tmp_path / "store")


@pytest.fixture
def policy_server() -> Iterator[PolicyServer]:
    server = PolicyServer()
    yield server
    server.close()


@pytest.fixture
def queues(broker: str) -> None:
    """The real broker, without what an earlier test has sent."""
    for name in ("rollouts", "learner", "control"):
        drain_queue(name)
