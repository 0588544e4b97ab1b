"""What an agent may try in a box, and what must come of it."""

import os
import socket
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import Backend, End
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.preflight import find_host
from tests.sandbox_worker.sandbox.boxes import open_box, python, said, shell

pytestmark = pytest.mark.sandbox

CONNECT = (
    "import errno,socket\ntry: socket.socket({}).connect({})\nexcept OSError as e: print(errno.errorcode[e.errno])"
)
LIBC = "import ctypes,errno,os,sys\nL=ctypes.CDLL(None,use_errno=True)\n"
CALL = LIBC + "r=L.syscall(*map(int,sys.argv[1:]))\nprint(errno.errorcode[ctypes.get_errno()] if r<0 else 'DONE')"


def test_there_is_no_network(backend: Backend) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, open_box(backend) as box:
        where = ("127.0.0.1", server.getsockname()[1])
        assert said(python(box, CONNECT.format(2, where))) == "ECONNREFUSED"
        assert said(shell(box, "ls /sys/class/net 2>/dev/null; cut -d: -f1 -s /proc/net/dev")).split() == ["lo"]


def test_the_hosts_sockets_cannot_be_reached(backend: Backend) -> None:
    with socket.socket(socket.AF_UNIX) as server, open_box(backend) as box:
        server.bind("\0assay-test-of-boxes")
        server.listen()
        assert said(python(box, CONNECT.format(1, repr("\0assay-test-of-boxes")))) == "ECONNREFUSED"


@pytest.mark.parametrize("family", [16, 17, 38, 40])
def test_other_address_families_are_refused(backend: Backend, family: int) -> None:
    script = f"import socket\ntry: socket.socket({family}, 3)\nexcept OSError as e: print(e.errno)"
    with open_box(backend) as box:
        assert said(python(box, script)) == "97"


@pytest.mark.parametrize("family", [2, 16, 30, 40])
def test_pairs_of_sockets_are_of_this_host_only(backend: Backend, family: int) -> None:
    script = f"import socket\ntry: socket.socketpair({family})\nexcept OSError as e: print(e.errno)"
    with open_box(backend) as box:
        assert said(python(box, script)) == "97"
        assert said(python(box, "import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))")) == "b'x'"


@pytest.mark.parametrize("path", ["/etc/shadow", "/root", "/home", "/var", "/run", "/sys", "/dev/mem", "/proc/kcore"])
def test_files_of_the_host_cannot_be_read(backend: Backend, path: str) -> None:
    with open_box(backend) as box:
        assert shell(box, f"cat {path} || ls {path}/").exit_code != 0


def test_this_repository_cannot_be_read(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, f"ls {Path(__file__).parent}").exit_code != 0
        assert shell(box, f"ls /proc/1/root/{Path(__file__).parent}").exit_code != 0


@pytest.mark.parametrize(
    "path",
    ["/x", "/usr/bin/x", "/usr/x", "/etc/x", "/etc/passwd", "/dev/x",
     "/proc/sys/kernel/hostname", "/proc/sysrq-trigger",
     "/proc/sys/vm/drop_caches", "/proc/sys/kernel/core_pattern", "/bin/x"],
)  # fmt: skip
def test_nothing_but_its_own_folders_can_be_written(backend: Backend, path: str) -> None:
    with open_box(backend) as box:
        assert shell(box, f"echo x > {path}").exit_code != 0


def test_it_has_no_rights(backend: Backend) -> None:
    with open_box(backend) as box:
        status = dict(
            line.split(":\t", 1) for line in said(shell(box, "cat /proc/self/status")).splitlines() if ":\t" in line
        )
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"], status["Uid"].split()) == ("1", "2", ["1000"] * 4)


def test_it_inherits_no_descriptor(backend: Backend) -> None:
    with open_box(backend) as box:
        assert said(python(box, "import os\nprint(os.listdir('/proc/self/fd'))")) == "['0', '1', '2', '3']"


@pytest.mark.parametrize("name", ["environ", "mem", "maps", "auxv", "stack"])
def test_the_supervisor_cannot_be_looked_into(backend: Backend, name: str) -> None:
    with open_box(backend) as box:
        assert shell(box, f"head -c1 /proc/1/{name} > /dev/null").exit_code != 0


def test_the_descriptors_of_the_supervisor_cannot_be_taken(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "ls /proc/1/fd/ /proc/1/cwd/ /proc/1/root/").exit_code != 0


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("101 16 1 0 0", id="ptrace"),
        pytest.param("165 0 0 0 0 0", id="mount"),
        pytest.param("166 0 2", id="umount2"),
        pytest.param("272 268435456", id="unshare user"),
        pytest.param("272 131072", id="unshare mount"),
        pytest.param("56 268435473 0 0 0 0", id="clone user"),
        pytest.param("308 0 0", id="setns"),
        pytest.param("321 0 0 0", id="bpf"),
        pytest.param("250 0 -3 0", id="keyctl"),
        pytest.param("425 8 0", id="io_uring_setup"),
        pytest.param("323 0", id="userfaultfd"),
        pytest.param("298 0 0 0 0 0", id="perf_event_open"),
        pytest.param("310 1 0 0 0 0 0", id="process_vm_readv"),
        pytest.param("438 0 0 0", id="pidfd_getfd"),
        pytest.param("16 0 21522 0", id="TIOCSTI"),
        pytest.param("16 0 21532 0", id="TIOCLINUX"),
        pytest.param("302 1 7 1 0", id="prlimit of the supervisor"),
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86_64")
def test_dangerous_calls_are_refused(backend: Backend, call: str) -> None:
    with open_box(backend) as box:
        assert said(box.run(["python3", "-c", CALL, *call.split()], timeout=10)) == "EPERM"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86_64")
def test_what_falls_back_is_told_that_there_is_no_such_call(backend: Backend) -> None:
    with open_box(backend) as box:
        assert said(box.run(["python3", "-c", CALL, "435", "0", "0"], timeout=10)) == "ENOSYS"
        assert said(box.run(["python3", "-c", CALL, str(0x40000000 + 39)], timeout=10)) == "ENOSYS"


def test_own_limits_can_still_be_lowered(backend: Backend) -> None:
    with open_box(backend) as box:
        assert said(shell(box, "ulimit -n 100 && ulimit -n")) == "100"


def test_no_signal_ends_the_supervisor(backend: Backend) -> None:
    script = "import os\nfor n in range(1, 65):\n    try: os.kill(1, n)\n    except OSError: pass\nprint('sent')"
    with open_box(backend) as box:
        assert said(python(box, script)) == "sent"
        assert said(shell(box, "echo alive")) == "alive"


def test_killing_everything_kills_the_command_alone(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "sleep 50 & kill -9 -1; echo survived", timeout=20)
        assert (done.end, done.output) == (End.EXITED, b"survived\n")
        assert said(shell(box, "echo alive")) == "alive"


def test_it_does_not_learn_its_control_group(backend: Backend) -> None:
    with open_box(backend) as box:
        assert {line.split(":")[2] for line in said(shell(box, "cat /proc/self/cgroup")).splitlines()} == {"/"}


def test_devices_cannot_be_made(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "mknod /app/disk b 254 0").exit_code != 0


def test_privileged_programs_give_no_privilege(backend: Backend) -> None:
    with open_box(backend) as box:
        assert b"uid=0" not in shell(box, "su -c id; mount -t tmpfs x /tmp; unshare -r id; sudo id").output


def test_many_files_are_charged_to_the_box(backend: Backend) -> None:
    script = "import os\nfor i in range(400000): os.close(os.open(f'/tmp/{i}', os.O_CREAT))\nprint('all made')"
    with open_box(backend, memory_bytes=64 * 2**20) as box:
        assert b"all made" not in python(box, script, timeout=60).output


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
