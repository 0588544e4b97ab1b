"""What dead workers leave is found and removed; what living ones hold is not touched."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import Backend, Limits
from sandbox_worker.sandbox.cgroups import TOP, Cgroup, CgroupError, CgroupTree, delegate, remove_folder
from sandbox_worker.sandbox.hierarchies import find_tree
from sandbox_worker.sandbox.owner import Owner
from sandbox_worker.sandbox.reap import reap, remove
from tests.sandbox_worker.sandbox.boxes import groups_of, open_box, processes_with, said, shell

pytestmark = pytest.mark.sandbox

APART = "assay-test-of-reaping"
WORKER = """
import threading, time
from sandbox_worker.sandbox.base import BoxSpec
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.preflight import find_host
from tests.sandbox_worker.sandbox.test_reap import tree_apart
backend = BubblewrapBackend(find_host(allow_weaker=False, find_cgroups=tree_apart))
boxes = [backend.start(BoxSpec(label="9.9.1")) for _ in range(3)]
for box in boxes[1:]:
    run = lambda box=box: box.run(["bash", "-c", "setsid -f sleep 51515; trap '' TERM; sleep 51515"], timeout=60)
    threading.Thread(target=run, daemon=True).start()
time.sleep(1)
print("ready", flush=True)
time.sleep(60)
"""


def tree_apart() -> CgroupTree:
    """Groups that no other worker on this host looks at."""
    tree = find_tree()
    assert tree is not None
    by_controller = {name: folder / APART for name, folder in tree.by_controller.items()}
    for folder in by_controller.values():
        folder.mkdir(exist_ok=True)
        if tree.version == 2:
            delegate(folder)
    return replace(tree, by_controller=by_controller)


@pytest.fixture
def tree() -> Iterator[CgroupTree]:
    made = tree_apart()
    yield made
    for folder in set(made.by_controller.values()):
        remove_folder(folder / TOP)
        remove_folder(folder)


def start_worker() -> "subprocess.Popen[str]":
    root = Path(__file__).parents[3]
    worker = subprocess.Popen([sys.executable, "-c", WORKER], cwd=root, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    worker.stdout.close()
    return worker


def soon(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so()


def test_a_killed_worker_leaves_no_process_and_reaping_removes_its_groups(tree: CgroupTree) -> None:
    worker = start_worker()
    assert processes_with("51515")
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    assert soon(lambda: not processes_with("51515"))
    assert groups_of(worker.pid)
    assert reap(tree) == 3
    assert not groups_of(worker.pid)
    assert tree.owners() == set()
    assert reap(tree) == 0


def test_boxes_of_living_workers_are_left_alone(backend: Backend) -> None:
    with open_box(backend) as box:
        backend.reap()
        assert said(shell(box, "echo alive")) == "alive"


def test_a_process_in_a_dead_workers_group_is_killed(tree: CgroupTree) -> None:
    dead = replace(Owner.this_process(), ticks=1)
    group = tree.create(dead, "1", Limits())
    joins = " && ".join(f"echo 0 > {name}" for name in group.join_files())
    left = subprocess.Popen(["/bin/sh", "-c", f"{joins} && exec sleep 60"])
    assert soon(lambda: left.pid in group.pids())
    assert reap(tree) == 1
    assert left.wait() == -signal.SIGKILL
    assert not any(folder.exists() for folder in group.folders)


def test_what_stays_of_one_dead_worker_keeps_nothing_of_another(
    tree: CgroupTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubborn, other = (replace(Owner.this_process(), ticks=ticks) for ticks in (1, 2))
    groups = [tree.create(owner, "1", Limits()) for owner in (stubborn, other)]

    def refuse(group: Cgroup) -> None:
        if group.folders == groups[0].folders:
            raise CgroupError("it will not go")
        remove(group)

    with monkeypatch.context() as patched:
        patched.setattr("sandbox_worker.sandbox.reap.remove", refuse)
        patched.setattr("sandbox_worker.sandbox.reap.dead_owners", lambda _: [stubborn, other])
        with pytest.raises(CgroupError, match="it will not go"):
            reap(tree)
    assert tree.owners() == {stubborn}
    assert reap(tree) == 1


@pytest.mark.usefixtures("tree")
def test_a_closed_back_end_leaves_nothing() -> None:
    script = WORKER.replace("time.sleep(60)\n", "backend.close(); print(backend.reap())\n")
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "ready\n0\n"
    assert not processes_with("51515")
