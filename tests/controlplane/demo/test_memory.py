import os
import subprocess
import sys

import pytest

from controlplane.demo.memory import PeakMemory, tree_bytes

pytestmark = pytest.mark.process

SIZE = 200 * 2**20
CODE = f"held = b'x' * {SIZE}; print('held', flush=True); input()"


def test_the_peak_holds_what_a_child_allocated_after_the_child_has_gone() -> None:
    before = tree_bytes(os.getpid())
    memory = PeakMemory(every=0.01)
    memory.start()
    with subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        while memory.peak_bytes < before + SIZE:
            assert child.poll() is None
        child.communicate(b"\n")
    memory.stop()
    assert memory.peak_bytes >= before + SIZE
    assert tree_bytes(os.getpid()) < before + SIZE


def test_even_the_shortest_watch_has_looked_once() -> None:
    memory = PeakMemory()
    memory.start()
    memory.stop()
    assert memory.peak_bytes > 0


def test_one_that_never_started_may_be_stopped() -> None:
    PeakMemory().stop()
