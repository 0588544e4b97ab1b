"""What bubblewrap's boxes have on the host, and give back. What is so of any box is held in conformance."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox_worker.sandbox.base import Backend, BoxSpec, BoxStartError
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.preflight import find_host
from tests.sandbox_worker.sandbox.boxes import (
    groups_of,
    open_box,
    open_descriptors,
    processes_with,
    said,
    shell,
)

pytestmark = pytest.mark.sandbox

LIBC = "import ctypes,errno,os,sys\nL=ctypes.CDLL(None,use_errno=True)\n"
CALL = LIBC + "r=L.syscall(*map(int,sys.argv[1:]))\nprint(errno.errorcode[ctypes.get_errno()] if r<0 else 'DONE')"


def test_thirty_boxes_of_sixteen_threads_leave_nothing(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "true")
    before, groups = open_descriptors(), len(groups_of(os.getpid()))

    def live(number: int) -> str:
        with open_box(backend) as box:
            return said(shell(box, f"setsid -f sleep 4242; echo {number}", timeout=60))

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(live, range(30))) == [str(number) for number in range(30)]
    assert not processes_with("4242")
    assert len(groups_of(os.getpid())) == groups
    assert open_descriptors() == before


def test_a_failed_start_leaves_nothing(backend: Backend) -> None:
    before, groups = open_descriptors(), len(groups_of(os.getpid()))
    with pytest.raises(BoxStartError):
        backend.start(BoxSpec(workdir="/logs\0x"))
    with pytest.raises(BoxStartError):
        backend.start(BoxSpec(workdir="/" + "x" * 300))
    assert len(groups_of(os.getpid())) == groups
    assert open_descriptors() == before


def test_boxes_have_different_uids_on_the_host(backend: Backend) -> None:
    with open_box(backend) as one, open_box(backend) as other:
        owners = [said(shell(box, "grep ' /app ' /proc/mounts | grep -o ',uid=[0-9]*'")) for box in (one, other)]
    assert owners[0].startswith(",uid=")
    assert owners[0] != owners[1]


def test_the_wheels_bubblewrap_isolates_too() -> None:
    backend = BubblewrapBackend(find_host(allow_weaker=False, search_path=""))
    try:
        with open_box(backend) as box:
            assert said(shell(box, "id -u; cat /etc/shadow; ls /proc/self/fd")).splitlines()[0] == "1000"
            assert said(box.run(["python3", "-c", CALL, "272", "268435456"], timeout=10)) == "EPERM"
    finally:
        backend.close()
