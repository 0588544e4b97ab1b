"""The way to control groups is told in commands that fit the host and its user."""

from pathlib import Path

import pytest

from sandbox_worker.sandbox.delegation import Place, braced, mend_groups, user_name

CGROUP = Path("/sys/fs/cgroup")
SPLIT = {name: CGROUP / name for name in ("memory", "pids")} | dict.fromkeys(("cpu", "cpuacct"), CGROUP / "cpu,cpuacct")


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return tmp_path


def place(uid: int = 1000, v1: dict[str, Path] | None = None, v2: Path | None = None, systemd: bool = False) -> Place:
    return Place("ana", uid, v1 or {}, [v2] if v2 else [], {}, systemd)


def test_version_1_gives_each_mount_one_folder_of_the_user() -> None:
    told = mend_groups(place(v1=SPLIT))
    assert (
        "`for top in /sys/fs/cgroup/cpu,cpuacct /sys/fs/cgroup/memory /sys/fs/cgroup/pids;"
        " do sudo install -d -o 1000 $top/assay-user-1000; done`"
    ) in told
    assert told.startswith("Give ana a group")


def test_version_2_with_systemd_is_a_scope_of_the_user(v2: Path) -> None:
    told = mend_groups(place(v2=v2, systemd=True))
    assert "As ana, " in told
    assert "`systemd-run --user --scope -p Delegate=yes " in told
    assert "Delegate=cpu memory pids" in told


def test_version_2_without_systemd_is_a_folder_that_the_shell_is_moved_into(v2: Path) -> None:
    told = mend_groups(place(v2=v2))
    assert f"sudo mkdir -p {v2}/assay-user-1000" in told
    assert f"echo $$ | sudo tee {v2}/assay-user-1000/cgroup.procs" in told


def test_a_mount_of_version_2_without_controllers_is_no_way(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")
    told = mend_groups(place(v2=tmp_path, systemd=True))
    assert "systemd-run" not in told
    assert "as root" in told


def test_root_is_told_of_its_container(v2: Path) -> None:
    told = mend_groups(place(uid=0, v1=SPLIT, v2=v2, systemd=True))
    assert "read-only" in told
    assert "privileged" in told


def test_what_was_found_is_named(v2: Path) -> None:
    assert place(v1=SPLIT, v2=v2).words == (
        "version 1 with memory, pids, cpu, cpuacct at /sys/fs/cgroup/{cpu,cpuacct,memory,pids};"
        f" version 2 at {v2} with memory, pids, cpu"
    )
    assert place().words == "no control groups are mounted"


def test_one_folder_needs_no_braces() -> None:
    assert braced([CGROUP, CGROUP]) == "/sys/fs/cgroup"


def test_the_user_of_this_process_is_named() -> None:
    assert user_name()
    assert Place.here().own
