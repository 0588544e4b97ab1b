"""The installation's object store, in a folder of each test."""

from pathlib import Path

import pytest
from pytest_django import Settings

from wire.store import FolderStore


@pytest.fixture
def store(tmp_path: Path, settings: Settings) -> FolderStore:
    settings.ASSAY_STORE_URL = str(tmp_path / "store")
    return FolderStore(tmp_path / "store")
