"""checkpoint.json: the last file written into a weights folder. Where it stands, the folder is whole."""

import hashlib
from pathlib import Path

import msgspec

from learner.errors import LearnerError

MANIFEST_NAME = "checkpoint.json"
WEIGHTS_NAME = "model.safetensors"


class DamagedFileError(LearnerError):
    """A file is not the one that was asked for."""

    def __init__(self, path: Path, expected: str, found: str, remedy: str) -> None:
        super().__init__(f"{path} is damaged: expected sha256 {expected}, found {found}. {remedy}".rstrip())
        self.path = path
        self.expected = expected
        self.found = found


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    weights_sha256: str
    weights_bytes: int
    resumable: bool = False
    trainer: dict[str, str] = {}
    """SHA-256 by file of trainer/; empty if the folder is not resumable."""
    source_sha256: str = ""
    """Of the file that the weights were converted from."""
    version: int = 1


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_file(path: Path, expected: str, remedy: str = "") -> None:
    """Raises DamagedFileError if the file holds anything else. remedy: empty where only who asked can know it."""
    found = file_sha256(path) if path.is_file() else "no file"
    if found != expected:
        raise DamagedFileError(path, expected, found, remedy)


def read_manifest(folder: Path) -> Manifest | None:
    """None where the folder has no manifest: an imported policy, or a checkpoint that was never finished."""
    path = folder / MANIFEST_NAME
    return decode_manifest(path.read_bytes()) if path.is_file() else None


def decode_manifest(data: bytes) -> Manifest:
    return msgspec.json.decode(data, type=Manifest)


def encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
