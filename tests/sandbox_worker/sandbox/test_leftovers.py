"""What killed workers leave is found and told with its owner, and removed; living workers' things are not touched."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import Backend, BoxSpec
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.cgroups import TOP, CgroupError, CgroupTree, remove_folder
from sandbox_worker.sandbox.leftovers import GROUP, RECORD, Leftover, left_on_host
from sandbox_worker.sandbox.meeting import RECORDS, make_meeting_folder
from sandbox_worker.sandbox.pool import WarmPool
from sandbox_worker.sandbox.preflight import find_host
from sandbox_worker.sandbox.reap import reap
from sandbox_worker.sandbox.register import Register, records
from sandbox_worker.sandbox.starts import StartLimiter
from tests.sandbox_worker.sandbox.boxes import groups_of, processes_with, said, shell
from tests.sandbox_worker.sandbox.test_reap import soon, tree_apart

pytestmark = [pytest.mark.sandbox, pytest.mark.process]

ROOT = Path(__file__).parents[3]
WORKER = """
import os, sys, threading, time
from pathlib import Path
from sandbox_worker.sandbox.base import BoxSpec, Limits
from tests.sandbox_worker.sandbox.test_leftovers import pool_apart
with pool_apart(Path(sys.argv[1]), most=12) as pool:
    box = pool.start(BoxSpec(label="9.9.1", limits=Limits(disk_bytes=2**27, memory_bytes=2**28)))
    def work():
        {work}
    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.5)
    while not {until}:
        time.sleep(0.01)
    print("ready", flush=True)
    time.sleep(60)
"""
IN_A_COMMAND = """box.run(["bash", "-c", "setsid -f sleep 61616; trap '' TERM; sleep 61616"], timeout=60)"""
IN_AN_UPLOAD = """while True: box.write("large", bytes(2**26))"""
IN_NOTHING = """time.sleep(60)"""
IN_A_REFILL = """while True: pool.stop(pool.start(BoxSpec(label="9.9.2")))"""


@contextmanager
def pool_apart(meeting: Path, *, most: int) -> Iterator[WarmPool]:
    """With groups that no other worker on this host looks at."""
    backend = BubblewrapBackend(find_host(allow_weaker=False, find_cgroups=tree_apart))
    made = make_meeting_folder(meeting)
    assert made
    pool = WarmPool(backend, StartLimiter(4, made / "starts"), most=most, register=Register(made / RECORDS))
    try:
        yield pool
    finally:
        pool.close()


@pytest.fixture
def tree() -> Iterator[CgroupTree]:
    made = tree_apart()
    yield made
    reap(made)
    for folder in set(made.by_controller.values()):
        remove_folder(folder / TOP)
        remove_folder(folder)


@contextmanager
def killed_worker(meeting: Path, work: str, *, until: str = "True") -> Iterator[int]:
    """The pid of one that was killed in the midst of its work, and not before until holds in it."""
    script = WORKER.format(work=work, until=until)
    command = [sys.executable, "-c", script, str(meeting)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        try:
            assert worker.stdout.readline() == "ready\n"
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        yield worker.pid


def left(tree: CgroupTree, meeting: Path) -> list[Leftover]:
    return list(left_on_host([tree], meeting / RECORDS, meeting / "images"))


@pytest.mark.parametrize("work", [IN_A_COMMAND, IN_AN_UPLOAD, IN_A_REFILL])
def test_of_a_killed_worker_nothing_is_left_after_one_pass(tree: CgroupTree, tmp_path: Path, work: str) -> None:
    with killed_worker(tmp_path, work) as pid:
        assert groups_of(pid)
        for leftover in left(tree, tmp_path):
            leftover.remove()
        assert not groups_of(pid)
        assert soon(lambda: not processes_with("61616"))
        assert (tree.owners(), left(tree, tmp_path), list(records(tmp_path / RECORDS))) == (set(), [], [])


@pytest.mark.parametrize("work", [IN_A_COMMAND, IN_A_REFILL])
def test_the_reaper_of_another_worker_leaves_nothing_either(tree: CgroupTree, tmp_path: Path, work: str) -> None:
    with killed_worker(tmp_path, work) as pid, pool_apart(tmp_path, most=0) as pool:
        assert pool.reap() > 0
        assert not groups_of(pid)
        assert left(tree, tmp_path) == []


def test_what_is_found_is_told_with_its_owner_and_stays_until_it_is_removed(tree: CgroupTree, tmp_path: Path) -> None:
    with killed_worker(tmp_path, IN_A_COMMAND) as pid:
        found = left(tree, tmp_path)
        assert left(tree, tmp_path) == found
        groups = [one for one in found if one.what == GROUP]
        assert "9.9.1" in {one.label for one in groups}
        assert {one.owner.partition("-")[0] for one in found} == {str(pid)}
        assert len(groups) * len(tree.by_controller) >= len(groups_of(pid)) > 0
        assert [one.what for one in found][-1] == RECORD
        for leftover in found:
            leftover.remove()


def test_boxes_that_nobody_has_yet_are_recorded_too(tree: CgroupTree, tmp_path: Path) -> None:
    with killed_worker(tmp_path, IN_NOTHING, until="pool.report().warm"):
        labels = [box.label for record in records(tmp_path / RECORDS) for box in record.boxes]
        assert {"9.9.1", ""} == set(labels)
        reap(tree)


def test_boxes_of_living_workers_are_not_touched(tree: CgroupTree, tmp_path: Path) -> None:
    with pool_apart(tmp_path, most=2) as pool:
        box = pool.start(BoxSpec(label="1.1.1"))
        assert soon(lambda: bool(pool.report().warm))
        assert left(tree, tmp_path) == []
        pool.reap()
        assert said(shell(box, "echo alive")) == "alive"
        assert groups_of(os.getpid())


def test_a_group_that_cannot_be_removed_keeps_none_of_the_others(tree: CgroupTree, tmp_path: Path) -> None:
    with killed_worker(tmp_path, IN_A_REFILL):
        first, *others = [one for one in left(tree, tmp_path) if one.what == GROUP]
        folder = next(iter(tree.by_controller.values())) / TOP / first.owner / first.name / "stuck"
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sandbox_worker.sandbox.cgroups._KILL_SECONDS", 0.1)
            with pytest.raises(CgroupError, match=first.name):
                reap(tree)
        assert [one.name for one in left(tree, tmp_path) if one.what == GROUP] == [first.name]
        assert others
        folder.rmdir()
        assert reap(tree) == 1
    for leftover in left(tree, tmp_path):
        leftover.remove()


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """That takes no more bytes and no more files."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k,nr_inodes=6", "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_stops_no_box_from_starting_and_stopping(backend: Backend, tmp_path: Path) -> None:
    with full_disk(tmp_path / "full"):
        meeting = make_meeting_folder(tmp_path / "full" / "boxes")
        assert meeting
        (tmp_path / "full" / "filler").write_bytes(bytes(4096))
        register = Register(meeting / RECORDS)
        pool = WarmPool(backend, StartLimiter(4, meeting / "starts"), most=0, register=register)
        boxes = [pool.start(BoxSpec(label="1.1.1")) for _ in range(3)]
        assert [said(shell(box, "echo fine")) for box in boxes] == ["fine"] * 3
        for box in boxes:
            pool.stop(box)
        register.close()
    assert not groups_of(os.getpid())
