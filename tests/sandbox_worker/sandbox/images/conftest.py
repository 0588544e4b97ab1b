from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_worker.sandbox.images.store import ImageStore
from tests.servers import make_data_folder, remove_data_folder


@pytest.fixture
def images_folder() -> Iterator[Path]:
    """Which every uid may pass, as pytest's own folders are not."""
    folder = make_data_folder()
    yield folder / "images"
    remove_data_folder(folder)


@pytest.fixture
def images(images_folder: Path) -> ImageStore:
    return ImageStore(images_folder)
