"""Images that come as files, however they were saved; most are made of next to nothing."""

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_worker.sandbox.images import archive_file
from sandbox_worker.sandbox.images.bringing import bring_in
from sandbox_worker.sandbox.images.errors import (
    BadImageError,
    ImageError,
    MissingProgramError,
    UnsupportedImageError,
    WrongArchitectureError,
)
from sandbox_worker.sandbox.images.store import ImageStore
from tests.sandbox_worker.sandbox.images.building import build

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
OTHER = {"x86_64": 183, "aarch64": 62}[platform.machine()]


def tar_of(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
    return target.getvalue()


def config(**changes: object) -> bytes:
    return json.dumps({"architecture": MACHINE, "config": {"Env": ["A=1"]}} | changes).encode()


def saved(layers: list[bytes], settings: bytes) -> bytes:
    """As docker save has it."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = json.dumps([{"Config": "config.json", "RepoTags": ["x:1"], "Layers": names}]).encode()
    return tar_of({"manifest.json": manifest, "config.json": settings, **dict(zip(names, layers, strict=True))})


def oci(layers: list[bytes], settings: bytes) -> bytes:
    def blob(data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return f"sha256:{digest}"

    blobs: dict[str, bytes] = {}
    manifest = {"config": {"digest": blob(settings)}, "layers": [{"digest": blob(layer)} for layer in layers]}
    index = {"manifests": [{"digest": blob(json.dumps(manifest).encode())}]}
    return tar_of({"index.json": json.dumps(index).encode(), **blobs})


def brought(images: ImageStore, tmp_path: Path, data: bytes) -> list[str]:
    """The files that it has."""
    path = tmp_path / "image.tar"
    path.write_bytes(data)
    _, record = bring_in(images, "small:1", path)
    tops = [Path(layer) for layer in images.layers(record)[1:]]
    return sorted({str(found.relative_to(top)) for top in tops for found in top.rglob("*") if found.is_file()})


@pytest.mark.parametrize("make", [saved, oci])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_saved_image_has_its_layers(
    images: ImageStore, tmp_path: Path, make: Callable[[list[bytes], bytes], bytes], pack: Callable[[bytes], bytes]
) -> None:
    layers = [pack(tar_of({"etc/one": b"1", "dev/x": b""})), pack(tar_of({"etc/two": b"2"}))]
    assert brought(images, tmp_path, make(layers, config())) == ["etc/one", "etc/two"]
    assert images.record(images.named("small:1") or "") is not None


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_exported_root_is_one_layer(images: ImageStore, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    assert brought(images, tmp_path, pack(tar_of({"etc/one": b"1"}))) == ["etc/one"]


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"no tar", BadImageError, "is no image"),
        (saved([], config()), BadImageError, "has 0 layers"),
        (saved([tar_of({})] * 61, config()), BadImageError, "has 61 layers"),
        (saved([b"no tar"], config()), BadImageError, "no plain tar"),
        (saved([b"\x28\xb5\x2f\xfd"], config()), BadImageError, "compressed with zstd"),
        (saved([tar_of({"../out": b""})], config()), BadImageError, "an unsafe name: '../out'"),
        (saved([tar_of({"a": b""})], b"[" * 9000), BadImageError, "config.json of the image cannot be read"),
        (saved([tar_of({"a": b""})], b"[]"), BadImageError, "does not describe itself"),
        (saved([tar_of({"a": b""})], config(config={"User": "me"})), UnsupportedImageError, "needs Docker: .* 'me'"),
        (saved([tar_of({"a": b""})], config(architecture="riscv64")), WrongArchitectureError, "is for riscv64"),
        (tar_of({"bin/sh": b"\x7fELF\x02" + bytes(13) + bytes([OTHER, 0])}), WrongArchitectureError, "is for "),
        (tar_of({"manifest.json": b"[]"}), BadImageError, "no image, or several"),
        (tar_of({"manifest.json": b'[{"Config": "/etc/passwd"}]'}), BadImageError, "lacks its '/etc/passwd'"),
        (tar_of({"index.json": b'{"manifests": [{}]}'}), BadImageError, "lacks its 'blobs/None/'"),
    ],
)
def test_what_is_no_image_for_this_host_is_refused(
    images: ImageStore, tmp_path: Path, data: bytes, kind: type[ImageError], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        brought(images, tmp_path, data)
    assert type(caught.value) is kind
    assert images.named("small:1") is None
    assert list((images.folder / "tmp").iterdir()) == []


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(
    images: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_file, "MOST_LAYER_BYTES", 2**20)
    with pytest.raises(BadImageError, match="larger than 1048576 bytes when unpacked"):
        brought(images, tmp_path, saved([gzip.compress(bytes(2**24))], config()))


@pytest.mark.parametrize("name", ["", "Debian", "a b", "../x", "x:", "x/", "-x", "x" * 300, "x:1:2"])
def test_a_name_that_no_dockerfile_could_say_is_refused(images: ImageStore, tmp_path: Path, name: str) -> None:
    with pytest.raises(BadImageError, match="is no name of an image"):
        bring_in(images, name, tmp_path / "none")


@pytest.mark.sandbox
def test_an_image_without_a_shell_is_refused_before_anything_is_started(images: ImageStore, tmp_path: Path) -> None:
    brought(images, tmp_path, tar_of({"etc/one": b"1"}))
    for lines, program in (("RUN true\n", "/bin/sh"), ("WORKDIR /app\n", "bash")):
        with pytest.raises(MissingProgramError, match=f"the image has no {program}"):
            build(images, f"FROM small:1\n{lines}")


def test_a_file_of_too_many_members_is_refused_before_they_are_all_read(
    images: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_file, "MOST_MEMBERS", 3)
    with pytest.raises(BadImageError, match="more than 3 members"):
        brought(images, tmp_path, tar_of({str(number): b"" for number in range(4)}))
