"""Layers read as one tree, whatever their links say."""

import os
import stat
from pathlib import Path

import pytest

from sandbox_worker.sandbox.images.merged import Merged


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("low", "high")]
    for layer in made:
        (layer / "etc").mkdir(parents=True)
    return made


def merged(layers: list[Path]) -> Merged:
    return Merged([str(layer) for layer in layers], host_usr=False)


def names(tree: Merged, path: str) -> list[str]:
    found = tree.find(path)
    return [] if found is None else [name for name, _ in tree.children(found)]


def test_folders_are_joined_and_the_higher_file_counts(layers: list[Path]) -> None:
    (layers[0] / "etc/one").write_text("low")
    (layers[0] / "etc/two").write_text("low")
    (layers[1] / "etc/two").write_text("high")
    found = merged(layers).find("/etc/two")
    assert found is not None
    assert found.places[0].read_text() == "high"
    assert names(merged(layers), "/etc") == ["one", "two"]


def test_what_is_marked_as_deleted_is_not_there(layers: list[Path]) -> None:
    (layers[0] / "etc/one").touch()
    (layers[0] / "opt/deep").mkdir(parents=True)
    os.mknod(layers[1] / "etc/one", stat.S_IFCHR, 0)
    os.mknod(layers[1] / "opt", stat.S_IFCHR, 0)
    assert merged(layers).find("/etc/one") is None
    assert merged(layers).find("/opt/deep") is None
    assert names(merged(layers), "/") == ["etc"]


def test_an_opaque_folder_hides_what_lies_below_it(layers: list[Path]) -> None:
    (layers[0] / "etc/one").touch()
    (layers[1] / "etc/two").touch()
    os.setxattr(layers[1] / "etc", "user.overlay.opaque", b"y")
    assert names(merged(layers), "/etc") == ["two"]


def test_links_stay_in_the_tree(layers: list[Path]) -> None:
    (layers[0] / "etc/mine").write_text("mine")
    (layers[1] / "up").symlink_to("../../../../etc")
    (layers[1] / "all").symlink_to("/etc")
    (layers[1] / "out").symlink_to("/usr/bin")
    tree = merged(layers)
    assert names(tree, "/up") == names(tree, "/all") == ["mine"]
    assert tree.find("/out/env") is None
    assert tree.resolved("/out/new") == "/usr/bin/new"
    assert tree.resolved("/all/../etc/./mine") == "/etc/mine"


def test_links_in_a_ring_lead_nowhere(layers: list[Path]) -> None:
    (layers[0] / "a").symlink_to("b")
    (layers[0] / "b").symlink_to("a")
    assert merged(layers).find("/a") is None


def test_the_programs_of_the_host_lie_below_all(layers: list[Path]) -> None:
    for layer in layers:
        (layer / "usr/bin").mkdir(parents=True)
    (layers[1] / "usr/bin/mine").touch()
    os.mknod(layers[1] / "usr/bin/env", stat.S_IFCHR, 0)
    tree = Merged([str(layer) for layer in layers], host_usr=True)
    assert tree.find("/usr/bin/mine") is not None
    assert tree.find("/usr/bin/bash") is not None
    assert tree.find("/usr/bin/env") is None
