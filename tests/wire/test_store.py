"""What cannot be read is the store's own error, in a folder as in a bucket; only what is not there is missing."""

import hashlib
from pathlib import Path

import pytest

from wire.store import PIECE_BYTES, BucketStore, FolderStore, MissingObjectError, Store, StoreError

UNREADABLE = "long" * 100
"""No file system takes such a name: the look for it fails, which says nothing of what is there."""


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FolderStore(tmp_path) if request.param == "folder" else BucketStore(f"local://{tmp_path}")


def test_what_is_not_there_is_missing(store: Store) -> None:
    with pytest.raises(MissingObjectError):
        store.get("nothing")


def test_what_cannot_be_read_is_an_error_of_the_store_and_not_missing(store: Store) -> None:
    with pytest.raises(StoreError, match="cannot read") as caught:
        store.get(UNREADABLE)
    assert not isinstance(caught.value, MissingObjectError)


@pytest.mark.parametrize("size", [0, 3, PIECE_BYTES, PIECE_BYTES + 1])
def test_the_digest_of_an_object_is_that_of_all_its_pieces(size: int, store: Store) -> None:
    data = bytes(size)
    store.put("weights", data)
    assert store.sha256("weights") == hashlib.sha256(data).hexdigest()


def test_copies_go_but_for_those_to_keep(tmp_path: Path) -> None:
    store, cache = BucketStore("memory://wire-copies"), tmp_path / "cache"
    for key in ("a/1/weights", "a/1/trainer/state", "a/2/weights", "b"):
        store.put(key, b"x")
    for prefix in ("a/1", "a/2"):
        store.local_folder(prefix, cache)
    store.drop_copies(cache, {"a/1"})
    left = {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()}
    assert left == {"a/1/weights", "a/1/trainer/state"}
    store.drop_copies(cache, set())
    assert list(cache.iterdir()) == []
