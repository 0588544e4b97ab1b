"""Where groups can be made is found by trying, in trees of files like the kernel's and in the kernel's own."""

import os
from pathlib import Path

import pytest

from sandbox_worker.sandbox.cgroups import TOP
from sandbox_worker.sandbox.hierarchies import find_v1, find_v2, present_v1, present_v2, user_folder, v2_mounts

ALL = "cpuset cpu io memory pids"


def make_group(folder: Path, *, controllers: str = ALL, handed_down: str = "", procs: str | None = None) -> Path:
    """As version 2 shows one; procs: for one that is not the root of the tree."""
    folder.mkdir(exist_ok=True)
    (folder / "cgroup.controllers").write_text(f"{controllers}\n")
    (folder / "cgroup.subtree_control").write_text(f"{handed_down}\n")
    (folder / "cgroup.procs").write_text(procs or "")
    if procs is not None:
        (folder / "cgroup.type").write_text("domain\n")
    return folder


def written(folder: Path) -> str:
    return (folder / "cgroup.subtree_control").read_text()


def test_controllers_that_are_handed_down_already_are_left_alone(tmp_path: Path) -> None:
    make_group(tmp_path, handed_down=ALL)
    tree = find_v2([tmp_path], {"": "/"})
    assert tree is not None
    assert (tree.version, tree.by_controller) == (2, dict.fromkeys(("memory", "pids", "cpu"), tmp_path))
    assert written(tmp_path) == f"{ALL}\n"
    assert (tmp_path / TOP).is_dir()


@pytest.mark.parametrize("handed_down", ["", "memory pids"])
def test_what_is_not_handed_down_yet_is_asked_for(tmp_path: Path, handed_down: str) -> None:
    make_group(tmp_path, handed_down=handed_down)
    find_v2([tmp_path], {})
    assert set(written(tmp_path).split()) == {"+memory", "+pids", "+cpu"}


def test_a_group_without_memory_or_pids_is_none(tmp_path: Path) -> None:
    make_group(tmp_path, controllers="cpu memory", handed_down="cpu memory")
    assert find_v2([tmp_path], {}) is None
    assert not (tmp_path / TOP).exists()


def test_without_cpu_there_is_a_tree_that_does_not_claim_it(tmp_path: Path) -> None:
    make_group(tmp_path, controllers="memory pids", handed_down="memory pids")
    tree = find_v2([tmp_path], {})
    assert tree is not None
    assert set(tree.by_controller) == {"memory", "pids"}


def test_the_scope_of_this_process_is_tried_after_the_top(tmp_path: Path) -> None:
    make_group(tmp_path, controllers="cpuset")
    scope = make_group(tmp_path / "run-7.scope", handed_down="memory pids cpu", procs=f"{os.getpid()}\n")
    tree = find_v2([tmp_path], {"": "/run-7.scope"})
    assert tree is not None
    assert tree.by_controller["memory"] == scope


def test_processes_of_the_own_scope_make_room_for_the_boxes(tmp_path: Path) -> None:
    """Version 2 hands nothing down below a group that holds processes."""
    make_group(tmp_path, procs=f"{os.getpid()}\n")
    find_v2([tmp_path], {})
    assert (tmp_path / "assay-worker" / "cgroup.procs").read_text() == str(os.getpid())


def test_processes_of_another_group_are_not_moved(tmp_path: Path) -> None:
    make_group(tmp_path, procs="1\n")
    find_v2([tmp_path], {})
    assert not (tmp_path / "assay-worker").exists()


@pytest.mark.sandbox
def test_an_empty_mount_of_version_2_is_refused_and_left_as_it_was() -> None:
    bare = [mount for mount in v2_mounts() if "memory" not in (mount / "cgroup.controllers").read_text()]
    if not bare:
        pytest.skip("version 2 has its controllers here")
    before = {mount: sorted(os.listdir(mount)) for mount in bare}
    assert find_v2(bare, {"": "/"}) is None
    assert {mount: sorted(os.listdir(mount)) for mount in bare} == before


def test_version_1_takes_the_top_then_what_was_given_to_the_user(tmp_path: Path) -> None:
    mounts = {name: tmp_path / name for name in ("memory", "pids", "cpu")}
    for mount in mounts.values():
        user_folder(mount, os.geteuid()).mkdir(parents=True)
    tree = find_v1(mounts, {})
    assert tree is not None
    assert tree.by_controller == mounts
    for mount in mounts.values():
        (mount / TOP).rmdir()
        (mount / TOP).write_text("something else")
    tree = find_v1(mounts, {})
    assert tree is not None
    assert tree.by_controller == {name: user_folder(mount, os.geteuid()) for name, mount in mounts.items()}


def test_version_1_without_pids_is_none(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    assert find_v1({"memory": tmp_path / "memory"}, {}) is None


def test_where_workers_made_groups_is_found_without_making_any(tmp_path: Path) -> None:
    mounts = {name: tmp_path / name for name in ("memory", "pids", "cpu")}
    for mount in mounts.values():
        mount.mkdir()
    assert present_v1(mounts, {}) is None
    assert present_v2([tmp_path / "memory"], {"": "/mine"}) == []
    assert [list(mount.iterdir()) for mount in mounts.values()] == [[], [], []]
    for name in ("memory", "pids"):
        (mounts[name] / "mine" / TOP).mkdir(parents=True)
    tree = present_v1(mounts, {"memory": "/mine", "pids": "/mine", "cpu": "/mine"})
    assert tree is not None
    assert tree.by_controller == {name: mounts[name] / "mine" for name in ("memory", "pids")}
    assert present_v2([tmp_path / "memory"], {"": "/mine"}) == [tmp_path / "memory" / "mine"]
