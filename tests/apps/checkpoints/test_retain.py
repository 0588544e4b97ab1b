import pytest
from django.db import IntegrityError, transaction

from apps.buffer.models import Batch
from apps.checkpoints.adopt import adopt_checkpoints
from apps.checkpoints.models import Checkpoint
from apps.checkpoints.retain import retain_checkpoints, sweep_leftovers
from apps.runs.models import Run
from apps.training.models import LearnerStep
from apps.training.rewind import resume_point
from tests.apps.factories import START, at, beat, running
from wire.store import FolderStore

pytestmark = pytest.mark.django_db
FILES = {"model.safetensors": 100}
STATE = {"trainer/mean.safetensors": 300, "trainer/state.json": 2}


def trained(store: FolderStore, versions: int, *, resumable: tuple[int, ...] = (), state: str = "applied") -> Run:
    run = running()
    for version in range(1, versions + 1):
        make_step(run, store, version, resumable=version in resumable, state=state)
    run.take_version(versions)
    adopt_checkpoints(run)
    return run


def make_step(
    run: Run, store: FolderStore, version: int, *, resumable: bool = False, state: str = "applied", prefix: str = ""
) -> LearnerStep:
    batch = Batch.objects.create(
        run=run, kind="grpo", base_version=version - 1, groups=1, sequences=1, tokens=0, state="applied"
    )
    prefix = prefix or f"checkpoints/{run.pk}/{version}-1"
    for name, size in (FILES | (STATE if resumable else {})).items():
        store.put(f"{prefix}/{name}", b"x" * size)
    return LearnerStep.objects.create(
        run=run, batch=batch, kind="grpo", number=version, parent_version=version - 1, version=version, fence=1,
        handed_at=START, sent_at=START, finished_at=START, prefix=prefix, resumable=resumable, state=state,
    )  # fmt: skip


def kept(run: Run, store: FolderStore) -> dict[int, int]:
    """Bytes of what is stored, by version."""
    rows = Checkpoint.objects.of(run).stored().exclude(version=0).order_by("version")
    return {row.version: store.size(row.prefix) for row in rows}


def retain(run: Run, store: FolderStore, *, pinned: tuple[int, ...] = (), best: int | None = None) -> int:
    return retain_checkpoints(run, store, pinned=pinned, best=best, resume=resume_point(run))


def test_the_last_three_the_best_the_pinned_and_the_resume_point_stay(store: FolderStore) -> None:
    run = trained(store, 12, resumable=(2, 4))
    assert retain(run, store, pinned=(5,), best=3) == 6
    assert kept(run, store) == {3: 100, 4: 402, 5: 100, 10: 100, 11: 100, 12: 100}
    assert list(store.list(f"checkpoints/{run.pk}/1-1")) == []
    assert retain(run, store, pinned=(5,), best=3) == 0


def test_only_the_last_resume_point_keeps_its_optimiser_state(store: FolderStore) -> None:
    run = trained(store, 6, resumable=(4, 6))
    retain(run, store)
    assert kept(run, store) == {4: 100, 5: 100, 6: 402}
    assert not Checkpoint.objects.get(version=4).resumable
    assert Checkpoint.objects.get(version=4).size_bytes == 100


def test_the_bytes_of_a_long_run_are_bounded(store: FolderStore) -> None:
    run = running()
    for version in range(1, 30):
        make_step(run, store, version, resumable=version % 5 == 0)
        run.take_version(version)
        adopt_checkpoints(run)
        retain(run, store)
        assert store.size("checkpoints") <= 4 * 100 + 302


def test_the_policy_itself_is_never_deleted(store: FolderStore) -> None:
    run = trained(store, 6)
    retain(run, store)
    assert store.get("policies/run/model.safetensors")


def test_files_that_another_version_shares_stay(store: FolderStore) -> None:
    run = running()
    assert run.policy is not None
    make_step(run, store, 1, prefix=run.policy.prefix)
    shared = make_step(run, store, 2, resumable=True)
    for version in range(3, 7):
        make_step(run, store, version, resumable=version == 6, prefix=shared.prefix if version == 6 else "")
    run.take_version(6)
    adopt_checkpoints(run)
    assert retain(run, store) == 3
    assert store.get(f"{run.policy.prefix}/model.safetensors")
    assert store.size(shared.prefix) == 402


def test_versions_of_a_dead_branch_are_retired(store: FolderStore) -> None:
    run = trained(store, 6)
    LearnerStep.objects.filter(version__gt=3).update(state="rewound")
    run.take_version(3)
    retain(run, store)
    assert set(kept(run, store)) == {1, 2, 3}


def test_a_version_that_was_rewound_before_it_was_adopted_is_retired_too(store: FolderStore) -> None:
    run = trained(store, 5)
    make_step(run, store, 6, state="rewound")
    adopt_checkpoints(run)
    retain(run, store)
    assert list(store.list(f"checkpoints/{run.pk}/6-1")) == []


def test_what_sendings_that_did_not_count_wrote_is_deleted_once(store: FolderStore) -> None:
    run = running()
    step = make_step(run, store, 1)
    LearnerStep.objects.update(fence=3, prefix=f"checkpoints/{run.pk}/1-3")
    store.put(f"checkpoints/{run.pk}/1-3/model.safetensors", b"x")
    assert [sweep_leftovers(run, store) for _ in range(2)] == [2, 0]
    assert list(store.list(f"checkpoints/{run.pk}")) == [f"checkpoints/{run.pk}/1-3/model.safetensors"]
    assert step.left_prefixes() == []


def test_the_data_of_a_batch_goes_when_its_step_is_settled_and_nobody_holds_it(store: FolderStore) -> None:
    run = running()
    step = make_step(run, store, 1)
    step.batch.keep(f"batches/{run.pk}/1.json")
    store.put(step.batch.key, b"{}")
    beat("l", kind="learner", holding=[f"{step.pk}:1"])
    assert sweep_leftovers(run, store) == 0
    beat("l", kind="learner", now=at(10))
    assert sweep_leftovers(run, store) == 1
    assert list(store.list("batches")) == []
    assert store.get(f"{step.prefix}/model.safetensors")


def test_a_version_has_one_checkpoint(store: FolderStore) -> None:
    run = trained(store, 1)
    with pytest.raises(IntegrityError, match="checkpoint_version"), transaction.atomic():
        Checkpoint.objects.create(run=run, version=1, kind="grpo", prefix="x")
