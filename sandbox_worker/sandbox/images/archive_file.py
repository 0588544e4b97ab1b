"""Reads an image from one file: what docker save, an OCI archive or docker export made. It is hostile until unpacked.

What is taken of it: the layers, the environment, and for which machine it is.
"""

import gzip
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sandbox_worker.sandbox.images.errors import BadImageError, UnsupportedImageError
from sandbox_worker.sandbox.images.unpack import MOST_MEMBERS, Measured, Member

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Images name them in one way, kernels in another."""
MOST_LAYER_BYTES = 4 * 2**30
_MOST_JSON = 4 * 2**20
_MOST_LAYERS = 60
_USERS = ("", "root", "0", "0:0", "root:root", "1000", "1000:1000")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class ImageFile:
    layers: tuple[Path, ...]
    """Plain tars, the lowest first."""
    env: tuple[tuple[str, str], ...] = ()
    machine: str = ""
    """Empty where the file does not say."""


def read_image_file(path: Path, place: Path) -> ImageFile:
    """Its layers as files in place. Raises BadImageError, UnsupportedImageError, OSError."""
    try:
        with tarfile.open(path, tarinfo=Member) as archive:
            names = _names(archive)
            if "manifest.json" in names:
                return _saved(archive, place)
            if "index.json" in names:
                return _oci(archive, place)
        return ImageFile((_plain(path, place),))
    except (tarfile.TarError, EOFError, UnicodeError, gzip.BadGzipFile) as error:
        raise BadImageError(f"{path} is no image: {error}") from error


def _names(archive: tarfile.TarFile) -> set[str]:
    names = set()
    for number, member in enumerate(archive):
        if number >= MOST_MEMBERS:
            raise BadImageError(f"the archive has more than {MOST_MEMBERS} members")
        names.add(member.name)
    return names


def _saved(archive: tarfile.TarFile, place: Path) -> ImageFile:
    """Of docker save."""
    manifests = _json(archive, "manifest.json")
    if not isinstance(manifests, list) or len(manifests) != 1:
        raise BadImageError("the file holds no image, or several: save one at a time")
    manifest = _table(manifests[0])
    config = _table(_json(archive, str(manifest.get("Config"))))
    return _image(archive, place, [str(name) for name in _list(manifest.get("Layers"))], config)


def _oci(archive: tarfile.TarFile, place: Path) -> ImageFile:
    manifests = _list(_table(_json(archive, "index.json")).get("manifests"))
    if len(manifests) != 1:
        raise BadImageError("the file holds no image, or several: save one at a time, for one machine")
    manifest = _table(_json(archive, _blob(manifests[0])))
    if "manifests" in manifest:
        raise BadImageError("the file holds an image for several machines: save it for one")
    config = _table(_json(archive, _blob(manifest.get("config"))))
    return _image(archive, place, [_blob(layer) for layer in _list(manifest.get("layers"))], config)


def _image(archive: tarfile.TarFile, place: Path, names: list[str], config: Mapping[str, Any]) -> ImageFile:
    if not names or len(names) > _MOST_LAYERS:
        raise BadImageError(f"the image has {len(names)} layers, and must have from 1 to {_MOST_LAYERS}")
    settings = _table(config.get("config") or {})
    if (user := str(settings.get("User") or "")) not in _USERS:
        raise UnsupportedImageError(f"the image's user is {user!r}, and a box has one user, 1000")
    machine = str(config.get("architecture") or "")
    layers = [_extracted(archive, name, place / f"{number}.tar") for number, name in enumerate(names)]
    env = [str(pair).partition("=") for pair in _list(settings.get("Env") or [])]
    return ImageFile(tuple(layers), tuple((name, value) for name, _, value in env), MACHINES.get(machine, machine))


def _extracted(archive: tarfile.TarFile, name: str, target: Path) -> Path:
    source = _member(archive, name)
    with source, target.open("wb") as file:
        shutil.copyfileobj(_unpressed(source, name), file)
    return target


def _plain(path: Path, place: Path) -> Path:
    """Of docker export: a tar of the whole root, which may be compressed."""
    target = place / "0.tar"
    with path.open("rb") as source, target.open("wb") as file:
        shutil.copyfileobj(_unpressed(source, path.name), file)
    return target


def _unpressed(source: IO[bytes], name: str) -> Measured:
    magic = source.read(4)
    source.seek(0)
    if magic == _ZSTD:
        raise BadImageError(f"{name} is compressed with zstd: save the image with gzip, or not compressed")
    plain = gzip.GzipFile(fileobj=source) if magic.startswith(_GZIP) else source
    return Measured(plain, MOST_LAYER_BYTES)  # type: ignore[arg-type]


def _json(archive: tarfile.TarFile, name: str) -> object:
    with _member(archive, name) as source:
        data = source.read(_MOST_JSON + 1)
    try:
        if len(data) > _MOST_JSON:
            raise ValueError(f"more than {_MOST_JSON} bytes")
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadImageError(f"{name} of the image cannot be read: {error}") from error


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """Links in the file are not followed."""
    try:
        member = archive.getmember(name)
    except KeyError:
        raise BadImageError(f"the image lacks its {name[:200]!r}") from None
    source = archive.extractfile(member) if member.isreg() and not member.issparse() else None
    if source is None:
        raise BadImageError(f"{name[:200]!r} of the image is no regular file")
    return source


def _blob(descriptor: object) -> str:
    kind, _, digest = str(_table(descriptor).get("digest")).partition(":")
    return f"blobs/{kind}/{digest}"


def _table(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadImageError("the image does not describe itself as images do")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise BadImageError("the image does not describe itself as images do")
    return value
