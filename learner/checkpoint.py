"""Writes a policy version into the store and reads it back: checkpoint.json goes last, and only where it stands does a
version exist."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from learner.errors import LearnerError
from learner.manifest import (
    MANIFEST_NAME,
    WEIGHTS_NAME,
    Manifest,
    check_file,
    encode_manifest,
    file_sha256,
    read_manifest,
)
from learner.optimizer import CompactState
from wire.store import Store, StoreError

TRAINER_TENSORS = "trainer.safetensors"
TRAINER_STATE = "trainer.json"
_COPIED = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "tokenizer.model",
)
_REMEDY = "Start from an older checkpoint."
_STALE_SECONDS = 3600.0


class CheckpointError(LearnerError):
    """A checkpoint could not be written or read."""


class TrainerState(msgspec.Struct, frozen=True, kw_only=True):
    """trainer.json. A step draws no random numbers, so there is no random state to keep."""

    run_id: int
    version: int
    kind: str
    optimizer_steps: int
    weights_sha256: str
    """The weights that the state belongs to."""
    format: int = 1


@dataclass(frozen=True)
class Resume:
    """What a resumable checkpoint adds to the weights."""

    run_id: int
    version: int
    kind: str
    state: CompactState


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():  # left by a learner that was killed
        if time.time() - old.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as fresh:
        yield Path(fresh)


def write_checkpoint(
    store: Store,
    prefix: str,
    tensors: dict[str, torch.Tensor],
    copied_from: Path,
    scratch: Path,
    resume: Resume | None = None,
) -> Manifest:
    """All goes to scratch first: a full disk is met there, where nothing counts. Raises CheckpointError."""
    top = prefix.rstrip("/")
    try:
        with _scratch(scratch) as folder:
            manifest = _write_files(folder, tensors, copied_from, resume)
            names = sorted(path.name for path in folder.iterdir())
            names.sort(key=lambda name: name == WEIGHTS_NAME)
            for name in names:
                store.put_file(f"{top}/{name}", folder / name)
            store.put(f"{top}/{MANIFEST_NAME}", encode_manifest(manifest))
    except (OSError, SafetensorError, StoreError) as error:
        raise CheckpointError(f"checkpoint {top} could not be written: {error}") from error
    return manifest


def _write_files(folder: Path, tensors: dict[str, torch.Tensor], copied_from: Path, resume: Resume | None) -> Manifest:
    weights = folder / WEIGHTS_NAME
    _save(tensors, weights)
    digest = file_sha256(weights)
    trainer_digest = ""
    if resume:
        _save(resume.state.tensors, folder / TRAINER_TENSORS)
        trainer_digest = file_sha256(folder / TRAINER_TENSORS)
        state = TrainerState(
            run_id=resume.run_id,
            version=resume.version,
            kind=resume.kind,
            optimizer_steps=resume.state.steps,
            weights_sha256=digest,
        )
        (folder / TRAINER_STATE).write_bytes(msgspec.json.encode(state))
    for name in _COPIED:
        if (copied_from / name).is_file():
            shutil.copyfile(copied_from / name, folder / name)
    return Manifest(
        weights_sha256=digest,
        weights_bytes=weights.stat().st_size,
        resumable=resume is not None,
        trainer_sha256=trainer_digest,
    )


def _save(tensors: dict[str, torch.Tensor], path: Path) -> None:
    save_file(tensors, path, metadata={"format": "pt"})
    os.chmod(path, 0o644)  # safetensors makes its file private


def check_weights(folder: Path) -> None:
    """Raises DamagedFileError if the weights are not what the manifest says."""
    manifest = read_manifest(folder)
    if manifest:
        check_file(folder / WEIGHTS_NAME, manifest.weights_sha256, _REMEDY)


def read_resume(folder: Path) -> Resume | None:
    """None if the folder is not resumable. Raises DamagedFileError or CheckpointError."""
    manifest = read_manifest(folder)
    if manifest is None or not manifest.resumable:
        return None
    check_file(folder / TRAINER_TENSORS, manifest.trainer_sha256, _REMEDY)
    state = msgspec.json.decode((folder / TRAINER_STATE).read_bytes(), type=TrainerState)
    if state.weights_sha256 != manifest.weights_sha256:
        raise CheckpointError(f"{folder}: {TRAINER_STATE} belongs to other weights")
    tensors = load_file(folder / TRAINER_TENSORS)
    return Resume(state.run_id, state.version, state.kind, CompactState(tensors, state.optimizer_steps))
