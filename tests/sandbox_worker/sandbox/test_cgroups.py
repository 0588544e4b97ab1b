"""Groups of both versions, in the kernel's own file systems."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import Limits
from sandbox_worker.sandbox.cgroups import CgroupTree, CgroupV2
from sandbox_worker.sandbox.hierarchies import find_tree, v2_mounts
from sandbox_worker.sandbox.owner import Owner

pytestmark = pytest.mark.sandbox


@pytest.fixture
def folder_v2() -> Iterator[Path]:
    """A real group of version 2, with or without controllers."""
    mounts = v2_mounts()
    if not mounts:
        pytest.skip("version 2 is not mounted here")
    folder = mounts[0] / "assay-test-of-groups"
    folder.mkdir()
    yield folder
    if folder.exists():
        folder.rmdir()


def test_limits_are_written() -> None:
    tree = find_tree()
    assert tree is not None
    group = tree.create(Owner.this_process(), "test-limits", Limits(memory_bytes=2**25, pids=5))
    values = {file.read_text().strip() for folder in group.folders for file in folder.glob("*") if is_limit(file)}
    group.remove()
    assert {str(2**25), "7"} <= values


def is_limit(file: Path) -> bool:
    return file.name in {"memory.limit_in_bytes", "memory.max", "pids.max"}


def test_removing_twice_is_fine() -> None:
    tree = find_tree()
    assert tree is not None
    group = tree.create(Owner.this_process(), "test-twice", Limits())
    group.remove()
    group.remove()
    group.kill()
    assert group.pids() == set()


def test_version_2_kills_all_at_once_and_removes(folder_v2: Path) -> None:
    group = CgroupV2(folder_v2)
    script = f"echo 0 > {folder_v2}/cgroup.procs; sleep 60 & setsid sleep 60 & echo in; wait"
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"in\n"
        assert shell.pid in group.pids()
        group.kill()
        assert shell.wait() == -9
    assert group.pids() == set()
    group.remove()
    assert not folder_v2.exists()


def make_files(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_DOT_", ".")).write_text(text)
    return folder


def test_version_2_writes_every_limit(tmp_path: Path) -> None:
    folder = make_files(tmp_path, memory_DOT_swap_DOT_max="max\n", cpu_DOT_max="max 100000\n")
    CgroupV2(folder).limit(Limits(cpus=0.5, memory_bytes=2**25, pids=5))
    written = {name: (folder / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")}
    assert written == {
        "memory.max": str(2**25), "memory.swap.max": "0", "pids.max": "7", "cpu.max": "50000 100000"
    }  # fmt: skip


def test_version_2_without_swap_or_cpu_writes_what_there_is(tmp_path: Path) -> None:
    CgroupV2(tmp_path).limit(Limits())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory.max", "pids.max"]


def test_version_2_tells_what_was_used(tmp_path: Path) -> None:
    group = CgroupV2(
        make_files(
            tmp_path,
            cpu_DOT_stat="usage_usec 2500000\nuser_usec 1\n",
            memory_DOT_peak="4096\n",
            pids_DOT_current="3\n",
            memory_DOT_events="low 0\noom 2\noom_kill 1\n",
        )
    )
    usage = group.usage()
    assert (usage.cpu_seconds, usage.memory_peak_bytes, usage.pids_peak) == (2.5, 4096, 3)
    assert group.oom_kills() == 1


def test_version_2_hands_down_from_the_top_to_the_worker(tmp_path: Path) -> None:
    top = make_files(tmp_path / "assay", cgroup_DOT_controllers="cpu memory pids\n")
    owner = Owner(1, 2, 3)
    make_files(top / owner.name, cgroup_DOT_controllers="cpu memory pids\n")
    tree = CgroupTree(2, dict.fromkeys(("memory", "pids", "cpu"), tmp_path))
    group = tree.create(owner, "1", Limits(pids=5))
    assert group.folders == (top / owner.name / "1",)
    for above in (top, top / owner.name):
        assert set((above / "cgroup.subtree_control").read_text().split()) == {"+memory", "+pids", "+cpu"}
    assert (top / owner.name / "1" / "pids.max").read_text() == "7"
    assert tree.owners() == {owner}
