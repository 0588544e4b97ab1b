import asyncio
import json
from pathlib import Path

import pytest
import torch

from learner.manifest import file_sha256
from learner.serve.engine import Engine
from learner.serve.protocol import ApiError
from learner.serve.shelf import Shelf
from tests.learner.tiny import tiny_policy
from wire.store import BucketStore, FolderStore, StoreError


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


@pytest.mark.parametrize("field", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("name", ["type", "rope_type"])
def test_scaled_positions_are_refused_by_name(tmp_path: Path, field: str, name: str) -> None:
    policy = tiny_policy(tmp_path / "store" / "policies" / "tiny")
    config = json.loads((policy / "config.json").read_text())
    (policy / "config.json").write_text(json.dumps(config | {field: {name: "linear", "factor": 2.0}}))
    error = loading(FolderStore(tmp_path / "store"), tmp_path, "policies/tiny")
    assert (error.status, error.code) == (422, "weights_unusable")
    assert f"{field} has rope_type 'linear'" in str(error)


def test_local_copies_of_what_is_off_the_shelf_go(tmp_path: Path) -> None:
    store = BucketStore("memory://shelf-copies")
    for version in range(3):
        for path in tiny_policy(tmp_path / str(version)).iterdir():
            store.put(f"runs/7/{version}/{path.name}", path.read_bytes())
    shelf = Shelf(store, tmp_path / "cache", Engine(), 2, torch.float32)
    for version in range(3):
        asyncio.run(shelf.load(f"7@{version}", f"runs/7/{version}", ""))
    assert {path.name for path in (tmp_path / "cache/runs/7").iterdir()} == {"1", "2"}


def test_an_object_that_was_mended_in_the_store_is_read_anew(tmp_path: Path) -> None:
    store, policy = BucketStore("memory://shelf-mended"), tiny_policy(tmp_path / "tiny")
    weights = policy / "model.safetensors"
    for path in policy.iterdir():
        store.put(f"policies/tiny/{path.name}", path.read_bytes())
    store.put("policies/tiny/model.safetensors", weights.read_bytes()[:-4] + b"\xff" * 4)
    shelf = Shelf(store, tmp_path / "cache", Engine(), 2, torch.float32)
    with pytest.raises(ApiError) as caught:
        asyncio.run(shelf.load("7@0", "policies/tiny", file_sha256(weights)))
    assert (caught.value.code, str(caught.value)[-1]) == ("weights_damaged", ".")
    store.put("policies/tiny/model.safetensors", weights.read_bytes())
    asyncio.run(shelf.load("7@0", "policies/tiny", file_sha256(weights)))
    assert [served.policy.name for served in shelf.all()] == ["7@0"]


def test_weights_that_are_not_there_are_not(tmp_path: Path) -> None:
    error = loading(FolderStore(tmp_path / "store"), tmp_path, "policies/none")
    assert (error.status, error.code) == (404, "weights_not_found")
