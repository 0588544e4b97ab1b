"""A worker that is not root: refused with the commands that mend it, and after them as safe as any."""

import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_worker.sandbox.hierarchies import user_folder, v1_mounts
from tests.sandbox_worker.sandbox.boxes import processes_with
from tests.sandbox_worker.sandbox.test_reap import soon
from tests.sandbox_worker.sandbox.users import (
    UserProcess,
    commands_in,
    new_user,
    readable_package,
    remove_delegated,
    run_as_root,
)

pytestmark = pytest.mark.sandbox

SLEEPER = "61616"
START = """
import json, os, sys, threading, time
from sandbox_worker.sandbox.base import BoxSpec, HostCannotIsolateError, Limits
from sandbox_worker.sandbox.choose import Wanted, open_proved
"""
REFUSED = f"""{START}
try:
    open_proved(Wanted(kind="bubblewrap"))
except HostCannotIsolateError as error:
    print(json.dumps([error.missing, error.mend]))
"""
WORK = f"""{START}
proved = open_proved(Wanted(kind="bubblewrap"))
backend, found = proved.backend, {{row.name: row.state for row in proved.findings}}
small = BoxSpec(limits=Limits(memory_bytes=48 * 2**20, pids=8), label="9.1.1")
box = backend.start(small)
hog = box.run(["python3", "-c", "x = bytearray(2**27); x[::4096] = bytes(len(x[::4096]))"], timeout=20)
box.stop()
box = backend.start(small)
forks = box.run(["bash", "-c", "for i in $(seq 40); do sleep 5 & done; wait"], timeout=20)
escape = box.run(["python3", "-c", sys.argv[1]], timeout=20)
again = box.run(["python3", "-c", "x = bytearray(2**27); x[::4096] = bytes(len(x[::4096]))"], timeout=20)
box.stop()
report = dict(
    uid=os.geteuid(), weaker=backend.weaker, isolation=backend.isolation, found=found, hog=hog.end,
    forks=forks.end, escape=json.loads(escape.output), again=again.end, reaped=backend.reap(),
)
backend.close()
print(json.dumps(report))
"""
ESCAPE = """
import ctypes, glob, json, os
before = open("/proc/self/cgroup").read()
mounts = [line for line in open("/proc/self/mountinfo") if " - cgroup" in line]
libc = ctypes.CDLL(None, use_errno=True)
mounted = [libc.mount(b"none", b"/tmp", kind, 0, b"memory") for kind in (b"cgroup", b"cgroup2", b"tmpfs")]
moved = []
for root in ("", "/proc/1/root", f"/proc/{os.getppid()}/root"):
    for name in glob.glob(root + "/sys/fs/cgroup/**/cgroup.procs", recursive=True):
        try:
            with open(name, "w") as procs:
                procs.write("0")
            moved.append(name)
        except OSError:
            pass
open_files = sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}"))
print(json.dumps(dict(mounts=mounts, mounted=mounted, moved=moved, stays=open("/proc/self/cgroup").read() == before,
                      outside=[os.readlink(f"/proc/self/fd/{fd}") for fd in open_files if fd > 2])))
"""
HOLD = f"""{START}
backend = open_proved(Wanted(kind="bubblewrap")).backend
boxes = [backend.start(BoxSpec(label="9.9.1")) for _ in range(2)]
for box in boxes:
    script = "setsid -f sleep {SLEEPER}; trap '' TERM; sleep {SLEEPER}"
    run = lambda box=box: box.run(["bash", "-c", script], timeout=60)
    threading.Thread(target=run, daemon=True).start()
time.sleep(1)
print("ready", flush=True)
time.sleep(60)
"""
REAP = f"""{START}
backend = open_proved(Wanted(kind="bubblewrap")).backend
print(json.dumps([backend.reap(), backend.reap()]))
backend.close()
"""


@pytest.fixture(scope="module")
def package() -> Iterator[Path]:
    with readable_package() as folder:
        yield folder


@pytest.fixture
def user() -> Iterator[pwd.struct_passwd]:
    with new_user() as made:
        yield made


@pytest.fixture
def delegated(user: pwd.struct_passwd, package: Path) -> Iterator[pwd.struct_passwd]:
    """The user, after root did what the refusal says."""
    if not v1_mounts():
        pytest.skip("version 1 is not mounted here")
    _, mend = UserProcess(user, package, REFUSED).said()
    run_as_root(commands_in(mend)[0])
    yield user
    remove_delegated(user.pw_uid)


def groups_left(uid: int) -> list[Path]:
    """Groups of boxes; those above them stay for the next worker."""
    return [path for mount in v1_mounts().values() for path in user_folder(mount, uid).glob("assay/*/*/")]


def test_without_groups_a_user_is_refused_with_the_commands_that_mend_it(
    user: pwd.struct_passwd, package: Path
) -> None:
    missing, mend = UserProcess(user, package, REFUSED).said()
    assert "no control group can be made" in missing
    assert user.pw_name in mend
    if v1_mounts():
        (command,) = commands_in(mend)
        assert all(str(mount) in command for mount in v1_mounts().values())
        assert f"-o {user.pw_uid} $top/assay-user-{user.pw_uid}" in command


def test_with_them_its_boxes_hold_every_limit_and_do_not_leave_their_group(
    delegated: pwd.struct_passwd, package: Path
) -> None:
    said = UserProcess(delegated, package, WORK, ESCAPE).said()
    assert (said["uid"], said["weaker"], said["reaped"]) == (delegated.pw_uid, "", 0)
    assert set(said["found"].values()) == {"ok"}
    assert "the worker's uid, cgroup v1" in said["isolation"]
    assert said["hog"] == "out_of_memory"
    assert said["forks"] == "pid_limit"
    assert said["escape"] == {"mounts": [], "mounted": [-1, -1, -1], "moved": [], "stays": True, "outside": []}
    assert said["again"] == "out_of_memory"
    assert groups_left(delegated.pw_uid) == []


def test_what_its_killed_worker_leaves_is_reaped_by_its_next(delegated: pwd.struct_passwd, package: Path) -> None:
    worker = UserProcess(delegated, package, HOLD)
    assert worker.process.stdout is not None
    assert worker.process.stdout.readline() == "ready\n"
    assert processes_with(SLEEPER)
    worker.kill()
    assert soon(lambda: not processes_with(SLEEPER))
    assert groups_left(delegated.pw_uid)
    assert UserProcess(delegated, package, REAP).said() == [2, 0]
    assert groups_left(delegated.pw_uid) == []


def test_a_user_cannot_write_in_the_groups_of_root(delegated: pwd.struct_passwd, package: Path) -> None:
    """What was given to it is below a folder of its own; those of root's workers stay root's."""
    script = "import json, os, sys; print(json.dumps([os.access(path, os.W_OK) for path in sys.argv[1:]]))"
    tops = [str(mount / "assay") for mount in v1_mounts().values() if (mount / "assay").is_dir()]
    mounts = [str(mount) for mount in v1_mounts().values()]
    assert not any(UserProcess(delegated, package, script, *tops, *mounts).said())
