"""What an agent may try to reach from its box: the network, the host, the supervisor, the kernel. It gets nowhere."""

import os
import socket
from pathlib import Path

import pytest

from sandbox_worker.sandbox.base import Backend, Box, End
from tests.sandbox_worker.sandbox.boxes import MARK, open_box, python, said, shell

X86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86_64")
CONNECT = """
import errno, socket
def connect(family, kind, where):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(5)
            s.connect(where)
            s.send(b"x")
            s.recv(1)
            return "REACHED"
    except OSError as e:
        return errno.errorcode.get(e.errno, type(e).__name__)
"""
CALLS = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
for numbers in sys.argv[1:]:
    failed = libc.syscall(*(ctypes.c_long(int(n)) for n in numbers.split())) < 0
    print(errno.errorcode[ctypes.get_errno()] if failed else "DONE")
"""


def called(box: Box, *calls: str) -> dict[str, str]:
    """What the kernel says to each: its number and arguments."""
    done = box.run(["python3", "-c", CALLS, *calls], timeout=20)
    return dict(zip(calls, said(done).splitlines(), strict=True))


def test_r26_there_is_no_network(backend: Backend) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, open_box(backend) as box:
        port = server.getsockname()[1]
        script = f"""
print(connect(2, 1, ("127.0.0.1", {port})), connect(2, 1, ("192.0.2.1", 80)), connect(2, 2, ("192.0.2.1", 53)))
print(connect(10, 1, ("2001:db8::1", 80)), connect(10, 2, ("2001:db8::1", 53)))
try: print(socket.getaddrinfo("example.org", 80))
except socket.gaierror: print("NO NAME")
for kind, number in ((3, 1), (3, 255), (2, 1)):
    try: socket.socket(2, kind, number).sendto(b"x" * 8, ("192.0.2.1", 0)); print("SENT")
    except OSError as e: print("REFUSED")
"""
        done = python(box, CONNECT + script, timeout=20)
        of_v4, of_v6, *others = said(done).splitlines()
        assert (of_v4, others) == ("ECONNREFUSED ENETUNREACH ENETUNREACH", ["NO NAME", *["REFUSED"] * 3])
        assert set(of_v6.split()) <= {"ENETUNREACH", "EADDRNOTAVAIL"}
        assert done.end is End.EXITED
        assert said(shell(box, "cut -d: -f1 -s /proc/net/dev")).split() == ["lo"]


def test_r27_neither_metadata_nor_the_host_nor_another_box_answers(backend: Backend) -> None:
    places = ("169.254.169.254", "169.254.170.2", "100.100.100.200", "172.17.0.1", "10.0.2.2", "192.168.0.1")
    serve = "import socket, time; s = socket.create_server(('0.0.0.0', 8642)); print(1, flush=True); time.sleep(60)"
    with open_box(backend) as box, open_box(backend) as other:
        session = other.open_session()
        assert session.run(f'python3 -c "{serve}" & sleep 1', timeout=20).completed.output.strip().endswith(b"1")
        script = f"print({{connect(2, 1, (place, 80)) for place in {places}}}, connect(2, 1, ('127.0.0.1', 8642)))"
        assert said(python(box, CONNECT + script)) == "{'ENETUNREACH'} ECONNREFUSED"
        session.close()


def test_r29_no_socket_of_the_host_can_be_seen(backend: Backend) -> None:
    paths = "/var/run/docker.sock /run/docker.sock /run/dbus /run/systemd /run/containerd /tmp/.X11-unix /tmp/dbus-*"
    with socket.socket(socket.AF_UNIX) as server, open_box(backend) as box:
        server.bind(f"\0{MARK}")
        server.listen()
        assert said(python(box, CONNECT + f"print(connect(1, 1, '\\0{MARK}'))")) == "ECONNREFUSED"
        assert said(shell(box, f"for f in {paths}; do test -e $f && echo $f; done; tail -n +2 /proc/net/unix")) == ""


@pytest.mark.parametrize("call", ["socket", "socketpair"])
def test_r26_other_families_of_addresses_are_refused(backend: Backend, call: str) -> None:
    families = (16, 17, 29, 30, 38, 40, 44) + ((2, 10) if call == "socketpair" else ())
    script = f"""
import errno, socket
for family in {families}:
    try: socket.{call}(family); print(family)
    except OSError as e: print(errno.errorcode[e.errno])
"""
    with open_box(backend) as box:
        assert set(said(python(box, script)).splitlines()) == {"EAFNOSUPPORT"}
        assert said(python(box, "import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))")) == "b'x'"


def test_r30_the_kernels_files_give_no_way_out(backend: Backend) -> None:
    written = ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
               "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe", "/proc/1/oom_score_adj", "/proc/1/mem",
               "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/mm")  # fmt: skip
    with open_box(backend) as box:
        for path in written:
            assert shell(box, f"echo x > {path}").exit_code != 0, path
        assert said(shell(box, "ls -A /proc/1/root/ /proc/1/cwd/ /proc/1/fd/ 2>/dev/null")) == ""
        assert said(shell(box, f"ls {Path(__file__).parent} /proc/1/root{Path(__file__).parent} 2>/dev/null")) == ""
        assert said(shell(box, "cat /proc/kcore /dev/mem /etc/shadow 2>/dev/null | head -c 1")) == ""
        assert {line.split(":")[2] for line in said(shell(box, "cat /proc/self/cgroup")).splitlines()} == {"/"}


def test_r30_only_the_boxes_own_processes_are_seen(backend: Backend) -> None:
    with open_box(backend) as box:
        seen = python(box, "import os; print([name for name in os.listdir('/proc') if name.isdigit()])")
        assert len(said(seen).split(",")) == 2  # the supervisor, and the one that looks


def test_nothing_but_its_own_folders_can_be_written(backend: Backend) -> None:
    with open_box(backend) as box:
        for path in ("/x", "/usr/bin/x", "/usr/x", "/etc/x", "/etc/passwd", "/dev/x", "/bin/x", "/proc/x", "/var/x"):
            assert shell(box, f"echo x > {path}").exit_code != 0, path


def test_r31_neither_the_supervisor_nor_another_box_can_be_looked_into(backend: Backend) -> None:
    with open_box(backend) as box, open_box(backend) as other:
        session = other.open_session()
        session.run("sleep 86400 & disown", timeout=20)
        for name in ("environ", "mem", "maps", "auxv", "stack", "syscall"):
            assert shell(box, f"head -c1 /proc/1/{name} > /dev/null").exit_code != 0, name
        assert b"86400" not in shell(box, "cat /proc/[0-9]*/cmdline").output
        session.close()


@X86_64
@pytest.mark.parametrize(
    "calls",
    [
        pytest.param({"ptrace": "101 16 1 0 0", "process_vm_readv": "310 1 0 0 0 0 0", "pidfd_getfd": "438 0 0 0",
                      "prlimit of the supervisor": "302 1 7 1 0", "kcmp": "312 1 1 0 0 0"}, id="r31"),
        pytest.param({"mount": "165 0 0 0 0 0", "umount2": "166 0 2", "pivot_root": "155 0 0", "chroot": "161 0",
                      "unshare user": "272 268435456", "unshare mount": "272 131072", "setns": "308 0 0",
                      "clone user": "56 268435473 0 0 0 0", "fsopen": "430 0 0", "open_tree": "428 0 0 0"}, id="r32"),
        pytest.param({"keyctl": "250 0 -3 0", "bpf": "321 0 0 0", "perf_event_open": "298 0 0 0 0 0",
                      "userfaultfd": "323 0", "io_uring_setup": "425 8 0", "kexec_load": "246 0 0 0 0",
                      "init_module": "175 0 0 0", "finit_module": "313 0 0 0"}, id="r35"),
        pytest.param({"TIOCSTI": "16 0 21522 0", "TIOCLINUX": "16 0 21532 0", "with high bits": "16 0 4294988818 0",
                      "with all high bits": "16 0 -4294945774 0"}, id="r36"),
        pytest.param({"clock_settime": "227 0 0", "settimeofday": "164 0 0", "adjtimex": "159 0"}, id="r51"),
    ],
)  # fmt: skip
def test_dangerous_calls_are_refused(backend: Backend, calls: dict[str, str]) -> None:
    with open_box(backend) as box:
        found = called(box, *calls.values())
        assert {name: found[call] for name, call in calls.items()} == dict.fromkeys(calls, "EPERM")


@X86_64
def test_r35_what_falls_back_is_told_that_there_is_no_such_call(backend: Backend) -> None:
    with open_box(backend) as box:
        assert called(box, "435 0 0") == {"435 0 0": "ENOSYS"}
        done = box.run(["python3", "-c", CALLS, str(0x40000000 + 39)], timeout=20)
        assert done.output == b"ENOSYS\n" or done.end is End.SIGNALLED  # numbers of x32


def test_r32_no_namespace_of_ones_own(backend: Backend) -> None:
    with open_box(backend) as box:
        for command in ("unshare -Ur true", "unshare -m true", "unshare -n true", "unshare -p true"):
            assert shell(box, command).exit_code not in (0, 127), command


def test_r33_devices_can_neither_be_made_nor_opened(backend: Backend) -> None:
    with open_box(backend) as box:
        for command in ("mknod disk b 254 0", "mknod mem c 1 1", "mknod /tmp/kmsg c 1 11"):
            assert shell(box, command).exit_code != 0, command
        assert said(shell(box, "ls -d /dev/[sv]d* /dev/nvme* /dev/mem /dev/kmsg /dev/kvm /dev/fuse 2>/dev/null")) == ""


def test_r34_it_has_no_rights_and_gains_none(backend: Backend) -> None:
    with open_box(backend) as box:
        lines = said(shell(box, "cat /proc/self/status")).splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert (status["NoNewPrivs"], status["Seccomp"], status["Uid"].split()) == ("1", "2", ["1000"] * 4)
        assert b"uid=0" not in shell(box, "cp /usr/bin/id .; chmod 4755 id; ./id; su -c id; sudo -n id").output


def test_r49_no_secret_of_the_host_can_be_read(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_WORKER", secret := f"secret-{os.getpid()}-of-the-worker")
    with open_box(backend) as box:
        look = "env; cat /proc/*/environ /proc/*/cmdline /proc/*/task/*/environ /proc/mounts"
        output = shell(box, f"({look}) 2>/dev/null; ls -la / /app /tmp /run /var 2>/dev/null").output
    assert MARK.encode() in output
    assert secret.encode() not in output
    assert str(Path.cwd()).encode() not in output


def test_r49_it_inherits_no_descriptor(backend: Backend) -> None:
    with open_box(backend) as box:
        assert said(python(box, "import os\nprint(os.listdir('/proc/self/fd'))")) == "['0', '1', '2', '3']"


def test_r51_the_clock_cannot_be_set(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "date -s 2001-01-01").exit_code != 0
        assert said(shell(box, "date +%Y")) != "2001"


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


@pytest.mark.parametrize(
    "call",
    [
        "sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
        "sched_setparam(1, os.sched_param(0))",
        "sched_setaffinity(1, [0])",
        "setpriority(os.PRIO_PROCESS, 1, 19)",
        "setpriority(os.PRIO_PGRP, 1, 19)",
        "setpriority(os.PRIO_USER, 0, 19)",
    ],
)
def test_nobody_takes_the_supervisors_turn_on_the_processor(backend: Backend, call: str) -> None:
    with open_box(backend) as box:
        done = python(box, f"import os\nos.{call}")
        assert (done.exit_code, b"PermissionError" in done.output) == (1, True)


def test_its_own_turn_can_still_be_given_away(backend: Backend) -> None:
    own = "import os; os.nice(1); os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0)); print('done')"
    with open_box(backend) as box:
        assert said(python(box, own)) == "done"


def test_own_limits_can_still_be_lowered(backend: Backend) -> None:
    with open_box(backend) as box:
        assert said(shell(box, "ulimit -n 100 && ulimit -n")) == "100"
