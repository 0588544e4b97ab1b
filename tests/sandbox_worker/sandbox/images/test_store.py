"""Images between processes and between hosts: made once, found by digest, let go of when nobody uses them."""

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox_worker.sandbox.images import store as store_module
from sandbox_worker.sandbox.images.errors import BuildFailedError, ImageStoreError, MissingImageError
from sandbox_worker.sandbox.images.layered import LayeredBuilder
from sandbox_worker.sandbox.images.store import ImageStore
from tests.sandbox_worker.sandbox.boxes import said, shell
from tests.sandbox_worker.sandbox.images.building import LIMITS, box_on, build, recipe
from wire.store import FolderStore

pytestmark = pytest.mark.sandbox

STAMP = "RUN cat /proc/sys/kernel/random/uuid >/opt/stamp\n"
"""Tells whether it was executed again."""
BUILD = """
import sys
from pathlib import Path
from sandbox_worker.sandbox.images.store import ImageStore
from tests.sandbox_worker.sandbox.images.building import build
print(build(ImageStore(Path(sys.argv[1])), sys.argv[2]).log)
"""


def stamp(store: ImageStore, lines: str = STAMP) -> str:
    with box_on(store, build(store, lines)) as box:
        return said(shell(box, "cat /opt/stamp"))


def layers(store: ImageStore) -> set[str]:
    return {path.name for path in (store.folder / "layers").iterdir()}


def test_an_image_is_built_once_and_a_longer_one_goes_on_from_it(images: ImageStore) -> None:
    first = stamp(images)
    assert stamp(images) == first
    assert stamp(images, STAMP + "RUN touch /opt/more\n") == first
    assert build(images, STAMP).log == ""
    assert len(layers(images)) == 2


@pytest.mark.parametrize("lines", [STAMP.replace("cat", "cat -u"), "ENV A=1\n" + STAMP, "USER 1000\n" + STAMP])
def test_what_changes_a_command_changes_the_image(images: ImageStore, lines: str) -> None:
    assert build(images, lines).digest != build(images, STAMP).digest


def test_files_that_are_copied_change_the_image_and_others_do_not(images: ImageStore) -> None:
    def digest(**files: bytes) -> str:
        return build(images, "COPY a /opt/\n", files).digest

    assert digest(a=b"1") == digest(a=b"1", b=b"2")
    assert len({digest(a=b"1"), digest(a=b"2"), digest(a=b"#!1")}) == 3


def test_processes_that_want_the_same_image_at_once_build_it_once(images: ImageStore) -> None:
    command = [sys.executable, "-c", BUILD, str(images.folder), STAMP.strip() + "; sleep 1"]
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    logs = [builder.communicate(timeout=60)[0].strip() for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0, 0]
    assert sorted(bool(log) for log in logs) == [False, False, True]
    assert len(layers(images)) == 1


def test_another_host_loads_what_was_built(images_folder: Path, tmp_path: Path) -> None:
    objects = FolderStore(tmp_path / "objects")
    first = stamp(ImageStore(images_folder / "one", objects))
    other = ImageStore(images_folder / "two", objects)
    assert stamp(other) == first
    assert layers(other) == layers(ImageStore(images_folder / "one"))


def test_a_layer_that_was_changed_in_the_object_store_is_refused(images_folder: Path, tmp_path: Path) -> None:
    objects = FolderStore(tmp_path / "objects")
    build(ImageStore(images_folder / "one", objects), STAMP)
    (key,) = objects.list("images/layers")
    objects.put(key, objects.get(key).replace(b"stamp", b"stump"))
    other = ImageStore(images_folder / "two", objects)
    with pytest.raises(ImageStoreError, match="not the one of its digest"):
        build(other, STAMP)
    assert layers(other) == set()


@pytest.mark.parametrize("digest", ["sha256:" + "0" * 64, "sha256:../../etc/passwd", "", "sha256:"])
def test_a_digest_that_nobody_made_is_missing(images: ImageStore, digest: str) -> None:
    with ExitStack() as release, pytest.raises(MissingImageError):
        images.lease(digest, "/app", release)


def test_the_longest_unused_is_let_go_of_but_none_in_use(images: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_IDLE_SECONDS", -1.0)
    used = build(images, "RUN echo 1 >/opt/used\n")
    idle = build(images, "RUN echo 2 >/opt/idle\n")
    with ExitStack() as release:
        images.lease(used.digest, "/app", release)
        ImageStore(images.folder, most_bytes=0).evict()
        assert images.record(idle.digest) is None
        assert images.record(used.digest) is not None
        assert len(layers(images)) == 1
    ImageStore(images.folder, most_bytes=0).evict()
    assert layers(images) == set()


def test_what_a_dead_process_left_half_made_is_cleared_away(images: ImageStore) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    (images.folder / "tmp" / f"{ended.pid}-1-{namespace}.x" / "deep").mkdir(parents=True)
    mine = images.folder / "tmp" / "unknown"
    mine.mkdir()
    assert [path.name for path in (ImageStore(images.folder).folder / "tmp").iterdir()] == ["unknown"]


def test_a_folder_that_boxes_cannot_reach_is_refused_with_the_way_out(images_folder: Path) -> None:
    (images_folder / "closed").mkdir(parents=True, mode=0o700)
    with pytest.raises(ImageStoreError, match=r"boxes may not pass .*/closed: chmod o\+x .*, or set ASSAY_IMAGES"):
        ImageStore(images_folder / "closed/images").folder  # noqa: B018


def test_a_folder_that_cannot_be_made_is_refused(images_folder: Path) -> None:
    images_folder.touch()
    with pytest.raises(ImageStoreError, match="set ASSAY_IMAGES"):
        ImageStore(images_folder / "in").folder  # noqa: B018


def test_a_build_that_failed_is_not_tried_again_at_once(images: ImageStore) -> None:
    builder, logs = LayeredBuilder(images), set()
    for limits in (LIMITS, LIMITS, replace(LIMITS, pids=16)):
        with pytest.raises(BuildFailedError) as caught:
            builder.build(recipe(f"{STAMP.strip()}; cat /opt/stamp; exit 1\n"), limits, lambda: None)
        logs.add(caught.value.log)
    assert len(logs) == 2
