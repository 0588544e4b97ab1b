import asyncio
from pathlib import Path

import pytest
import torch

from learner.serve.engine import Engine
from learner.serve.protocol import ApiError
from learner.serve.shelf import Shelf
from tests.learner.tiny import tiny_policy
from wire.store import FolderStore, StoreError


class Away(FolderStore):
    """A store that does not answer at present."""

    def local_folder(self, prefix: str, cache: Path) -> Path:
        raise StoreError("object store: connection refused")


def loading(store: FolderStore, folder: Path, prefix: str) -> ApiError:
    shelf = Shelf(store, folder / "cache", Engine(), 2, torch.float32)
    with pytest.raises(ApiError) as caught:
        asyncio.run(shelf.load("7@1", prefix, ""))
    return caught.value


def test_a_store_that_is_away_is_worth_asking_again(tmp_path: Path) -> None:
    tiny_policy(tmp_path / "store" / "policies" / "tiny")
    error = loading(Away(tmp_path / "store"), tmp_path, "policies/tiny")
    assert (error.status, error.code) == (503, "store_unavailable")


def test_weights_that_are_not_there_are_not(tmp_path: Path) -> None:
    error = loading(FolderStore(tmp_path / "store"), tmp_path, "policies/none")
    assert (error.status, error.code) == (404, "weights_not_found")
