from pathlib import Path

import pytest
import torch

from learner.checkpoint import (
    CheckpointError,
    Resume,
    check_weights,
    read_companions,
    read_resume,
    write_checkpoint,
)
from learner.manifest import DamagedFileError, read_manifest
from learner.network import Network
from learner.optimizer import MasterAdamW
from tests.learner.full_disk import no_room_for
from tests.learner.tiny import tiny_policy
from wire.store import FolderStore


class Written:
    def __init__(self, folder: Path) -> None:
        self.store = FolderStore(folder / "store")
        self.scratch = folder / "scratch"
        self.parent = tiny_policy(folder / "parent")
        self.network = Network(self.parent, torch.bfloat16)
        self.optimizer = MasterAdamW(self.network.module)

    def write(self, *, resumable: bool = False) -> Path:
        resume = Resume(7, 1, "grpo", self.optimizer.compact()) if resumable else None
        files = read_companions(self.parent)
        write_checkpoint(self.store, "runs/7/1", self.network.tensors(), files, self.scratch, resume)
        return self.store.root / "runs/7/1"


def test_a_checkpoint_is_a_whole_policy_folder(tmp_path: Path) -> None:
    written = Written(tmp_path)
    folder = written.write()
    assert {path.name for path in folder.iterdir()} >= {"config.json", "tokenizer.json", "tokenizer_config.json"}
    loaded = Network(folder, torch.bfloat16)
    assert all(map(torch.equal, loaded.tensors().values(), written.network.tensors().values()))
    check_weights(folder)


def test_a_plain_checkpoint_is_no_resume_point(tmp_path: Path) -> None:
    assert read_resume(Written(tmp_path).write()) is None


def test_a_resumable_checkpoint_gives_its_state_back(tmp_path: Path) -> None:
    resume = read_resume(Written(tmp_path).write(resumable=True))
    assert resume is not None
    assert (resume.run_id, resume.version, resume.kind) == (7, 1, "grpo")


def test_a_full_disk_leaves_nothing_that_counts(tmp_path: Path) -> None:
    written = Written(tmp_path)
    with no_room_for(20_000), pytest.raises(CheckpointError, match="runs/7/1 could not be written"):
        written.write(resumable=True)
    assert list(written.store.list("runs")) == []
    assert list(written.scratch.iterdir()) == []
    assert read_manifest(written.write()) is not None


def test_a_damaged_file_is_named_with_what_was_expected(tmp_path: Path) -> None:
    folder = Written(tmp_path).write(resumable=True)
    for name, read in (("trainer/mean.safetensors", read_resume), ("model.safetensors", check_weights)):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(DamagedFileError, match=f"{name} is damaged: expected sha256 .* found"):
            read(folder)
        (folder / name).write_bytes(whole)
