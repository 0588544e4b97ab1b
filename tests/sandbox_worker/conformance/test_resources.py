"""What a command takes too much of: each quota holds from outside, the end is typed, and the box lives on."""

import time

import pytest

from sandbox_worker.sandbox.base import Backend, End
from tests.sandbox_worker.sandbox.boxes import MEGABYTE, open_box, python, said, shell

TAKE = "x = bytearray({0}); x[::4096] = bytes(len(x[::4096]))"
PLACES = ("/app", "/tmp", "/logs", "/tests", "/solution", "/dev/shm")


def test_r1_a_fork_bomb_is_held_and_said_to_be_one(backend: Backend) -> None:
    with open_box(backend, pids=32) as box:
        done = shell(box, ":(){ :|:& };: 2>/dev/null; sleep 30", timeout=1)
        assert (done.end, done.exit_code, done.finished) == (End.PID_LIMIT, 124, False)
        assert said(shell(box, "echo alive")) == "alive"
        assert box.usage().pids_peak <= 34


def test_r1_a_command_that_fails_at_the_limit_of_processes_says_so_and_its_own_code(backend: Backend) -> None:
    with open_box(backend, pids=16) as box:
        done = python(box, "import subprocess; [subprocess.Popen(['sleep', '60']) for _ in range(40)]")
    assert (done.end, done.exit_code, done.finished) == (End.PID_LIMIT, 1, True)
    assert b"Resource temporarily unavailable" in done.output


def test_r2_running_out_of_memory_is_said_so(backend: Backend) -> None:
    with open_box(backend, memory_bytes=64 * MEGABYTE) as box:
        done = python(box, TAKE.format(1 << 28))
        assert (done.end, done.exit_code, done.finished) == (End.OUT_OF_MEMORY, 137, False)
        assert said(shell(box, "echo alive")) == "alive"
        assert 32 * MEGABYTE < box.usage().memory_peak_bytes <= 64 * MEGABYTE


def test_r2_running_out_of_memory_in_many_small_processes_never_counts_as_our_failure(backend: Backend) -> None:
    script = f"import os, time\nfor i in range(40):\n  if not os.fork():\n    {TAKE.format(4 << 20)}; time.sleep(30)\n"
    with open_box(backend, memory_bytes=64 * MEGABYTE) as box:
        assert python(box, script + "time.sleep(30)", timeout=3).end is End.OUT_OF_MEMORY


def test_r2_a_command_that_copes_with_a_part_out_of_memory_ends_as_it_says(backend: Backend) -> None:
    with open_box(backend, memory_bytes=64 * MEGABYTE) as box:
        done = shell(box, f"python3 -c '{TAKE.format(1 << 28)}' || echo coped")
    assert (done.end, done.exit_code, done.finished) == (End.EXITED, 0, True)


def test_r3_files_in_memory_count_as_memory(backend: Backend) -> None:
    with open_box(backend, memory_bytes=64 * MEGABYTE, disk_bytes=128 * MEGABYTE) as box:
        done = shell(box, "head -c 50M /dev/zero > /tmp/a; head -c 50M /dev/zero > /app/b; echo all made", timeout=30)
        assert done.end is End.OUT_OF_MEMORY
        assert b"all made" not in done.output


def test_r3_many_files_are_charged_to_the_box(backend: Backend) -> None:
    script = "import os\nfor i in range(400000): os.close(os.open(f'/tmp/{i}', os.O_CREAT))\nprint('all made')"
    with open_box(backend, memory_bytes=64 * MEGABYTE) as box:
        assert b"all made" not in python(box, script, timeout=60).output


@pytest.mark.parametrize("how", ["dd if=/dev/zero of=$p/b bs=64k count=48", "fallocate -l 3M $p/b"])
def test_r4_a_full_disk_says_so_at_its_quota(backend: Backend, how: str) -> None:
    with open_box(backend, disk_bytes=4 * MEGABYTE) as box:
        for place in PLACES[:-1]:
            done = shell(box, f"p={place}; head -c 3M /dev/zero > $p/a && {how}; code=$?; cat $p/* | wc -c; exit $code")
            assert b"No space left on device" in done.output
            assert int(done.output.split()[-1]) <= 4 * MEGABYTE
            assert done.exit_code == 1
        assert said(shell(box, "echo alive")) == "alive"


def test_r4_the_end_names_the_folder_that_is_full(backend: Backend) -> None:
    with open_box(backend, disk_bytes=MEGABYTE) as box:
        done = shell(box, "cat /dev/zero > /logs/agent/log")
        assert (done.end, done.exit_code, done.full, done.finished) == (End.DISK_FULL, 1, "/logs", True)
        assert shell(box, "echo alive").end is End.EXITED
        assert box.usage().disk_bytes >= MEGABYTE


def test_r4_a_command_that_copes_with_a_full_disk_ends_as_it_says(backend: Backend) -> None:
    with open_box(backend, disk_bytes=MEGABYTE) as box:
        done = shell(box, "cat /dev/zero > file 2>/dev/null; rm file; echo coped")
    assert (done.end, done.exit_code, done.full) == (End.EXITED, 0, "")


def test_r7_a_command_that_has_no_descriptor_left_is_told_so(backend: Backend) -> None:
    script = """
import errno
held = []
try:
    while True: held.append(open("/dev/null"))
except OSError as e: print(len(held), errno.errorcode[e.errno])
"""
    with open_box(backend) as box:
        count, code = said(python(box, script)).split()
        assert (int(count) < 1024, code) == (True, "EMFILE")
        assert said(shell(box, "echo alive")) == "alive"


def test_r18_ten_thousand_zombies_are_buried(backend: Backend) -> None:
    script = """
import os
for _ in range(100):
    if not (parent := os.fork()):
        for _ in range(100):
            os.fork() or os._exit(0)
        os._exit(0)
    os.waitpid(parent, 0)
print("fine")
"""
    with open_box(backend, pids=250) as box:
        assert said(python(box, script, timeout=60)) == "fine"


def test_r18_orphans_do_not_use_up_the_limit_of_processes(backend: Backend) -> None:
    with open_box(backend, pids=20) as box:
        done = shell(box, "for i in $(seq 100); do (setsid -f true); done; sleep 0.2; echo fine")
    assert said(done) == "fine"


def test_r50_more_processors_may_be_seen_than_can_be_used(backend: Backend) -> None:
    with open_box(backend, cpus=0.25) as box:
        began, before = time.monotonic(), box.usage().cpu_seconds
        shell(box, "for i in 1 2 3 4; do while :; do :; done & done; wait", timeout=2)
        used, passed = box.usage().cpu_seconds - before, time.monotonic() - began
    assert used <= 0.25 * (passed + 0.2)


def test_time_is_counted_as_outside(backend: Backend) -> None:
    with open_box(backend) as box:
        began = time.monotonic()
        done = shell(box, "sleep 0.3")
    assert 0.3 <= done.seconds <= time.monotonic() - began


def test_what_a_box_used_is_told_also_after_its_end(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "head -c 1M /dev/zero > file; i=0; while ((i++ < 20000)); do :; done")
        used = box.usage()
    assert used.cpu_seconds > 0
    assert used.memory_peak_bytes > MEGABYTE
    assert used.pids_peak >= 1
    assert used.disk_bytes >= MEGABYTE
    assert box.usage().disk_bytes == used.disk_bytes
