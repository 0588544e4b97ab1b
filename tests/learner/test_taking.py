import gc
import time
import weakref
from pathlib import Path

import msgspec
import pytest

from learner.messages import SampleGroup
from tests.learner.full_disk import no_room_for
from tests.learner.shop import Shop
from tests.learner.tiny import groups
from wire.incarnation import Orders
from wire.store import BucketStore, FolderStore, StoreError


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_a_step_makes_a_version_and_tells_of_it_after_its_outcome(shop: Shop) -> None:
    outcome = shop.take(1)
    assert (outcome.state, outcome.error, outcome.prefix) == ("made", "", "runs/7/1")
    assert outcome.metrics is not None
    assert outcome.metrics.trained_tokens > 0
    assert "runs/7/1/checkpoint.json" in list(shop.store.list("runs/7/1"))
    assert [ready.key for ready in shop.replies] == ["outcomes/1-1.json"]


def test_a_bucket_serves_as_a_folder_does(shop: Shop, tmp_path: Path) -> None:
    bucket = Shop(tmp_path / "other", BucketStore("memory://learner-tests"))
    for one in (shop, bucket):
        one.take(1)
        one.take(2, resumable=True)
        one.restart()
        assert one.take(3).state == "made"
    assert bucket.weights(3) == shop.weights(3)


def test_a_repeated_request_only_repeats_the_reply(shop: Shop) -> None:
    request = shop.request(1)
    shop.taker.take(request)
    before = shop.store.get(request.outcome_key)
    shop.restart()
    shop.taker.take(request)
    assert shop.store.get(request.outcome_key) == before
    assert len(shop.replies) == 2


def test_a_request_with_an_old_fence_is_ignored(shop: Shop) -> None:
    shop.take(1, fence=2)
    old = shop.request(1, fence=1)
    shop.taker.take(old)
    assert list(shop.store.list("outcomes")) == ["outcomes/1-2.json"]
    assert len(shop.replies) == 1


def test_resumed_training_equals_uninterrupted_training_bit_for_bit(tmp_path: Path) -> None:
    through, resumed = Shop(tmp_path / "through"), Shop(tmp_path / "resumed")
    for shop in (through, resumed):
        shop.take(1)
        assert shop.take(2, resumable=True).resumable
    resumed.restart()
    for shop in (through, resumed):
        for version in (3, 4):
            assert shop.take(version).state == "made"
    assert through.weights(3) == resumed.weights(3)
    assert through.weights(4) == resumed.weights(4)


def test_without_its_optimiser_state_a_version_is_not_resident(shop: Shop) -> None:
    shop.take(1)
    shop.restart()
    assert shop.take(2).state == "not_resident"


def test_a_first_step_of_a_kind_needs_no_optimiser_state(shop: Shop) -> None:
    shop.take(1, kind="sft")
    shop.restart()
    assert shop.take(2, fresh_optimizer=True).state == "made"


def test_a_first_step_of_a_kind_forgets_the_moments_of_the_last(tmp_path: Path) -> None:
    resident, loaded = Shop(tmp_path / "resident"), Shop(tmp_path / "loaded")
    for shop in (resident, loaded):
        shop.take(1, kind="sft")
    loaded.restart()
    for shop in (resident, loaded):
        shop.take(2, fresh_optimizer=True)
    assert resident.weights(2) == loaded.weights(2)


def test_a_batch_without_signal_is_skipped_and_writes_nothing(shop: Shop) -> None:
    shop.take(1)
    outcome = shop.take(2, batch=groups()[2:])
    assert (outcome.state, outcome.skipped, outcome.prefix) == ("made", True, "runs/7/1")
    assert list(shop.store.list("runs/7/2")) == []
    assert shop.take(3, parent_prefix="runs/7/1").state == "made"


def test_a_full_disk_is_told_of_and_trying_again_only_writes(shop: Shop) -> None:
    shop.take(1)
    with no_room_for(20_000):
        full = shop.take(2)
    assert full.state == "not_written"
    assert "File too large" in full.error
    assert "could not be written" not in full.error, "the control plane says that, with the checkpoint's number"
    again = shop.take(2, fence=2)
    assert again.state == "made"
    assert weights_without_trouble(shop, 2) == shop.weights(2)


def weights_without_trouble(shop: Shop, version: int) -> bytes:
    """What another learner makes of the same batches, with nothing in its way."""
    other = Shop(shop.folder / "other")
    for each in range(1, version + 1):
        other.take(each)
    return other.weights(version)


def test_a_step_sent_again_after_it_was_made_is_only_written_again(shop: Shop) -> None:
    shop.take(1)
    first = shop.take(2)
    again = shop.take(2, fence=2, write_prefix="runs/7/2-2")
    assert (again.state, again.prefix, again.digest) == ("made", "runs/7/2-2", first.digest)
    assert shop.take(3, parent_prefix="runs/7/2-2").state == "made"
    assert weights_without_trouble(shop, 3) == shop.weights(3)


def test_a_skipped_step_sent_again_is_skipped_again(shop: Shop) -> None:
    shop.take(1)
    shop.take(2, batch=groups()[2:])
    again = shop.take(2, batch=groups()[2:], fence=2)
    assert (again.state, again.skipped, again.prefix) == ("made", True, "runs/7/1")
    assert shop.take(3, parent_prefix="runs/7/1").state == "made"


class Flaky(FolderStore):
    """A store that does not give some of its objects at times."""

    away = ""

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        if self.away and key.startswith(self.away):
            raise StoreError("object store: connection refused")
        return super().get(key, start=start, length=length)


@pytest.mark.parametrize(("away", "batch"), [("batches", None), ("runs/7/1", groups()[2:])])
def test_a_store_that_does_not_answer_costs_no_optimiser_state(
    tmp_path: Path, away: str, batch: tuple[SampleGroup, ...] | None
) -> None:
    store = Flaky(tmp_path / "store")
    shop = Shop(tmp_path, store)
    shop.take(1)
    store.away = away
    unread = shop.take(2, batch=batch)
    assert (unread.state, unread.error) == ("not_read", "object store: connection refused")
    store.away = ""
    assert shop.take(2, batch=batch, fence=2).state == "made"


def test_a_parent_in_memory_is_not_fetched_and_old_copies_go(tmp_path: Path) -> None:
    shop = Shop(tmp_path, BucketStore("memory://learner-copies"))
    for version in (1, 2, 3):
        shop.take(version, resumable=version == 2)
    assert copies(shop) == {"policies/tiny"}
    assert shop.take(4, parent_version=2, parent_prefix="runs/7/2").state == "made"
    assert copies(shop) == {"runs/7/2"}


def copies(shop: Shop) -> set[str]:
    cache = shop.folder / "cache"
    return {str(path.parent.relative_to(cache)) for path in cache.rglob("model.safetensors")}


def test_what_a_learner_lets_go_of_leaves_memory_at_once(shop: Shop) -> None:
    shop.take(1)
    resident = shop.taker._resident  # noqa: SLF001
    assert resident is not None
    weights, sums = weakref.ref(next(resident.network.module.parameters())), weakref.ref(resident.optimizer)
    del resident
    gc.disable()  # the collector would come too late: it counts objects, not their bytes
    try:
        shop.take(2, step_id=999, parent_version=0, parent_prefix="policies/tiny", fresh_optimizer=True)
        assert (weights(), sums()) == (None, None)
    finally:
        gc.enable()


def test_an_update_that_was_never_written_is_no_parent(shop: Shop) -> None:
    shop.take(1)
    with no_room_for(20_000):
        shop.take(2)
    assert shop.take(3, step_id=999, parent_version=1, parent_prefix="runs/7/1").state == "not_resident"


def test_a_cancelled_step_fails_and_leaves_its_parent(shop: Shop) -> None:
    shop.take(1)
    shop.taker.obey(Orders(cancelled=frozenset({"102:1"})))
    assert shop.take(2).error == "the step was cancelled"
    assert shop.take(2, fence=2).state == "made"


def test_a_step_past_its_deadline_fails(shop: Shop) -> None:
    assert "deadline" in shop.take(1, deadline=time.time() - 1).error


def test_what_is_missing_or_broken_is_named_in_the_outcome(shop: Shop) -> None:
    assert "no/such/policy" in shop.take(1, parent_prefix="no/such/policy").error
    request = shop.request(1, fence=2)
    shop.store.put(request.batch_key, b'{"groups": 3}')
    shop.taker.take(request)
    assert "$.groups" in shop.outcome(request).error
    shop.store.delete("policies/tiny/model.safetensors")
    shop.restart()
    assert "policies/tiny" in shop.take(1, fence=3).error


def test_traces_without_trainable_ids_are_refused(shop: Shop) -> None:
    one = groups()[0]
    samples = tuple(msgspec.structs.replace(s, trainable=(False,) * len(s.ids), logprobs=()) for s in one.samples)
    bare = msgspec.structs.replace(one, samples=samples)
    assert shop.take(1, kind="sft", batch=(bare,)).error == "the batch holds no trainable id"
