"""Writes a policy version into the store and reads it back: checkpoint.json goes last, and only where it stands does a
version exist."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
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
from learner.optimizer import PARTS, CompactState, Part, Tensors
from wire.store import Store, StoreError

TRAINER = "trainer"
"""The folder of what a resumable checkpoint adds: state.json, and a file a part of the optimiser's state."""
_STATE = "state.json"
_COMPANIONS = (
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
    """trainer/state.json. A step draws no random numbers, so there is no random state to keep."""

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


def read_companions(folder: Path) -> dict[str, bytes]:
    """What every version of a policy has beside its weights, by name: config, tokenizer, chat template."""
    return {name: (folder / name).read_bytes() for name in _COMPANIONS if (folder / name).is_file()}


def write_checkpoint(
    store: Store,
    prefix: str,
    tensors: Tensors,
    companions: Mapping[str, bytes],
    scratch: Path,
    resume: Resume | None = None,
) -> Manifest:
    """All goes to scratch first: a full disk is met there, where nothing counts. Raises CheckpointError."""
    top = prefix.rstrip("/")
    try:
        with _scratch(scratch) as folder:
            manifest = _write_files(folder, tensors, companions, resume)
            names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
            names.sort(key=lambda name: name == WEIGHTS_NAME)
            for name in names:
                store.put_file(f"{top}/{name}", folder / name)
            store.put(f"{top}/{MANIFEST_NAME}", encode_manifest(manifest))
    except (OSError, SafetensorError, StoreError) as error:
        raise CheckpointError(f"checkpoint {top} could not be written: {error}") from error
    return manifest


def _write_files(folder: Path, tensors: Tensors, companions: Mapping[str, bytes], resume: Resume | None) -> Manifest:
    weights = folder / WEIGHTS_NAME
    _save(tensors, weights)
    digest = file_sha256(weights)
    trainer = _write_trainer(folder / TRAINER, resume, digest) if resume else {}
    for name, data in companions.items():
        (folder / name).write_bytes(data)
    return Manifest(
        weights_sha256=digest,
        weights_bytes=weights.stat().st_size,
        resumable=resume is not None,
        trainer=trainer,
    )


def _write_trainer(folder: Path, resume: Resume, weights_sha256: str) -> dict[str, str]:
    """SHA-256 by file."""
    folder.mkdir()
    for part in PARTS:
        _save(resume.state.read(part), folder / _part_name(part))
    state = TrainerState(
        run_id=resume.run_id,
        version=resume.version,
        kind=resume.kind,
        optimizer_steps=resume.state.steps,
        weights_sha256=weights_sha256,
    )
    (folder / _STATE).write_bytes(msgspec.json.encode(state))
    return {path.name: file_sha256(path) for path in folder.iterdir()}


def _part_name(part: Part) -> str:
    return f"{part}.safetensors"


def _save(tensors: Tensors, path: Path) -> None:
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
    trainer = folder / TRAINER
    for name, digest in manifest.trainer.items():
        check_file(trainer / name, digest, _REMEDY)
    state = msgspec.json.decode((trainer / _STATE).read_bytes(), type=TrainerState)
    if state.weights_sha256 != manifest.weights_sha256:
        raise CheckpointError(f"{trainer / _STATE} belongs to other weights")

    def read(part: Part) -> Tensors:
        return load_file(trainer / _part_name(part))

    return Resume(state.run_id, state.version, state.kind, CompactState(read, state.optimizer_steps))
