"""The real back end of this host for the tests that play rollouts, and a store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import Backend
from sandbox_worker.sandbox.choose import Wanted, open_backend
from wire.store import FolderStore


@pytest.fixture(scope="session")
def backend() -> Iterator[Backend]:
    opened = open_backend(Wanted(kind="bubblewrap"))
    yield opened
    opened.close()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")
