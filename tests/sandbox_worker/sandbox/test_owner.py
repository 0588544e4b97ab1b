"""Whether a worker lives is told by pid, start and namespace."""

import os
import subprocess
from dataclasses import replace

from sandbox_worker.sandbox.owner import Owner, started_at


def test_a_name_is_read_back() -> None:
    assert Owner.parse(Owner.this_process().name) == Owner.this_process()


def test_other_names_are_nobodys() -> None:
    assert [Owner.parse(name) for name in ("1-2", "a-b-c", "", "1-2-3-4", "tasks")] == [None] * 5


def test_this_process_lives() -> None:
    assert not Owner.this_process().is_dead()


def test_the_same_pid_started_at_another_time_is_dead() -> None:
    assert replace(Owner.this_process(), ticks=1).is_dead()


def test_nothing_is_known_of_another_namespace() -> None:
    assert not replace(Owner.this_process(), ticks=1, namespace=1).is_dead()


def test_a_zombie_has_no_start() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert started_at(child.pid) is None
