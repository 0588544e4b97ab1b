"""Groups of both versions, in the kernel's own file systems."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import Limits
from sandbox_worker.sandbox.cgroups import CgroupV2
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
