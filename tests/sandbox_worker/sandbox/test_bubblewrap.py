"""How commands end in a real box, and how a box ends."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox_worker.sandbox.base import Backend, BoxDeadError, BoxSpec, BoxSpentError, BoxStartError, End
from tests.sandbox_worker.sandbox.boxes import (
    MEGABYTE,
    groups_of,
    open_box,
    open_descriptors,
    processes_with,
    python,
    said,
    shell,
    supervisor,
)

pytestmark = pytest.mark.sandbox


def test_a_command_succeeds_in_the_working_folder(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "pwd; echo oops >&2")
    assert (done.end, done.exit_code, said(done)) == (End.EXITED, 0, "/app\noops")
    assert done.output_bytes == len(done.output) == 10
    assert not done.truncated


def test_an_exit_code_is_kept(backend: Backend) -> None:
    with open_box(backend) as box:
        assert (shell(box, "exit 7").end, shell(box, "exit 7").exit_code) == (End.EXITED, 7)


def test_a_signal_is_told_apart_from_an_exit(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "kill -SEGV $$")
    assert (done.end, done.exit_code) == (End.SIGNALLED, 128 + 11)


def test_a_command_that_does_not_exist_ends_with_127(backend: Backend) -> None:
    with open_box(backend) as box:
        done = box.run(["no-such-program"], timeout=5)
    assert (done.end, done.exit_code) == (End.EXITED, 127)
    assert b"no-such-program" in done.output


def test_a_command_that_may_not_be_run_ends_with_126(backend: Backend) -> None:
    with open_box(backend) as box:
        assert box.run(["/etc/passwd"], timeout=5).exit_code == 126


@pytest.mark.parametrize("command", ["a\0b", "a\ud800b"])
def test_a_command_that_no_process_can_have_is_not_run(backend: Backend, command: str) -> None:
    with open_box(backend) as box:
        done = shell(box, command)
        assert (done.end, done.exit_code) == (End.EXITED, 126)
        assert done.output.startswith(b"cannot run: ")
        assert said(shell(box, "echo alive")) == "alive"


def test_a_command_longer_than_the_kernel_takes_is_not_run(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, ":" * 200_000).exit_code == 126


def test_a_very_long_time_is_fine(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "echo fine", timeout=1e9).output == b"fine\n"


def test_standard_input_ends(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "cat; echo end", stdin=b"given\n").output == b"given\nend\n"
        assert shell(box, "cat; echo end").output == b"end\n"


def test_environment_is_the_boxes_own(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "1")
    box = backend.start(BoxSpec(env=(("FROM_SPEC", "a"),)))
    done = box.run(["env"], timeout=5, env={"FROM_CALL": "b"})
    box.stop()
    assert set(said(done).splitlines()) == {
        "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/app", "LANG=C.UTF-8", "FROM_SPEC=a", "FROM_CALL=b",
    }  # fmt: skip


def test_default_signal_actions_are_restored(backend: Backend) -> None:
    with open_box(backend) as box:
        masks = said(shell(box, "grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f2 | sort -u")).split()
    # Numbers 32 and 33 are the C library's own: no program can set them, and it sets them itself where it needs them.
    assert {int(mask, 16) & ~(0b11 << 31) for mask in masks} == {0}


def test_time_is_up_also_for_what_ignores_signals(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "trap '' TERM INT HUP; echo begun; while :; do :; done", timeout=0.5)
        assert (done.end, done.exit_code, done.output) == (End.TIMED_OUT, 124, b"begun\n")
        assert said(shell(box, "echo next")) == "next"


def test_nothing_of_a_command_outlives_it(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "setsid -f sleep 31337; (trap '' HUP; sleep 31337) & disown; setsid -f sleep 31337 &")
        seen = python(box, "import os; print(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()))")
        assert len(said(seen).split(",")) == 2  # the supervisor and the one that looks
        shell(box, "setsid -f sleep 31338; sleep 60", timeout=0.5)
        assert not processes_with("31337")
        assert not processes_with("31338")


def test_a_background_job_that_holds_the_output_keeps_nobody_waiting(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "sleep 50 & echo done")
    assert (done.end, done.output) == (End.EXITED, b"done\n")
    assert done.seconds < 20


def test_orphans_do_not_use_up_the_limit_of_processes(backend: Backend) -> None:
    with open_box(backend, pids=20) as box:
        done = shell(box, "for i in $(seq 100); do (setsid -f true); done; sleep 0.2; echo fine")
    assert said(done) == "fine"


def test_output_is_bounded_and_counted(backend: Backend) -> None:
    with open_box(backend, output_bytes=1000) as box:
        done = shell(box, "printf head; head -c 100000000 /dev/zero | tr '\\0' x; printf tail")
    assert done.output_bytes == 100_000_008
    assert len(done.output) == 1000
    assert done.truncated
    assert done.output.startswith(b"headx")
    assert done.output.endswith(b"xtail")


def test_output_of_exactly_the_cap_is_whole(backend: Backend) -> None:
    with open_box(backend, output_bytes=1001) as box:
        done = shell(box, "printf 'a%.0s' $(seq 1001)")
    assert done.output == b"a" * 1001
    assert not done.truncated


def test_a_fork_bomb_is_held_and_the_box_lives_on(backend: Backend) -> None:
    with open_box(backend, pids=32) as box:
        done = shell(box, ":(){ :|:& };: 2>/dev/null; sleep 30", timeout=1)
        assert (done.end, done.exit_code, done.finished) == (End.PID_LIMIT, 124, False)
        assert said(shell(box, "echo alive")) == "alive"
        assert box.usage().pids_peak <= 34


def test_running_out_of_memory_is_said_so(backend: Backend) -> None:
    with open_box(backend, memory_bytes=64 * MEGABYTE) as box:
        done = box.run(["python3", "-c", "x = bytearray(1 << 28); x[::4096] = bytes(len(x[::4096]))"], timeout=20)
        assert (done.end, done.exit_code) == (End.OUT_OF_MEMORY, 137)
        assert said(shell(box, "echo alive")) == "alive"
        assert 32 * MEGABYTE < box.usage().memory_peak_bytes <= 64 * MEGABYTE


def test_running_out_of_memory_in_many_small_processes_never_counts_as_our_failure(backend: Backend) -> None:
    part = "x = bytearray(4 << 20); x[::4096] = bytes(len(x[::4096])); time.sleep(30)"
    script = f"import os, time\nfor i in range(40):\n  if not os.fork():\n    {part}\ntime.sleep(30)"
    with open_box(backend, memory_bytes=64 * MEGABYTE) as box:
        assert box.run(["python3", "-c", script], timeout=3).end is End.OUT_OF_MEMORY
    with open_box(backend) as box:
        assert said(shell(box, "echo next box")) == "next box"


def test_a_command_that_copes_with_a_part_out_of_memory_ends_as_it_says(backend: Backend) -> None:
    part = "python3 -c 'x = bytearray(1 << 28); x[::4096] = bytes(len(x[::4096]))'"
    with open_box(backend, memory_bytes=64 * MEGABYTE) as box:
        done = shell(box, f"{part} || echo coped")
    assert (done.end, done.exit_code) == (End.EXITED, 0)


@pytest.mark.parametrize("place", ["/app", "/tmp", "/logs", "/tests", "/solution"])
def test_a_full_disk_says_so_at_its_quota(backend: Backend, place: str) -> None:
    with open_box(backend, disk_bytes=4 * MEGABYTE) as box:
        done = shell(box, f"dd if=/dev/zero of={place}/a bs=1M count=3; dd if=/dev/zero of={place}/b bs=1M count=3")
        assert b"No space left on device" in done.output
        assert said(shell(box, f"du -sb --apparent-size {place}/b | cut -f1")) <= str(MEGABYTE)


def test_another_working_folder(backend: Backend) -> None:
    with open_box(backend, workdir="/srv/work") as box:
        assert said(shell(box, "pwd; echo $HOME; touch here && ls")) == "/srv/work\n/srv/work\nhere"


@pytest.mark.parametrize("workdir", ["/", "app", "/usr", "/usr/lib/x", "/etc", "/proc/1", "/app/../usr", "/dev/shm"])
def test_a_working_folder_over_the_system_is_refused(backend: Backend, workdir: str) -> None:
    with pytest.raises(BoxStartError):
        backend.start(BoxSpec(workdir=workdir))


def test_kill_from_another_thread_ends_a_run(backend: Backend) -> None:
    with open_box(backend) as box:
        killer = threading.Timer(0.3, box.kill)
        killer.start()
        with pytest.raises(BoxDeadError):
            shell(box, "sleep 60")
        killer.join()
        with pytest.raises(BoxDeadError):
            shell(box, "true")


def test_stop_from_another_thread_ends_a_run(backend: Backend) -> None:
    with open_box(backend) as box:
        stopper = threading.Timer(0.3, box.stop)
        stopper.start()
        with pytest.raises(BoxDeadError):
            shell(box, "sleep 60")
        stopper.join()


def test_a_box_that_its_command_starved_says_so(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_worker.sandbox.supervised.GRACE_SECONDS", 0.5)
    with open_box(backend) as box:
        os.kill(supervisor(), signal.SIGSTOP)
        assert shell(box, "true", timeout=0.5).end is End.TIMED_OUT
        assert box.spent == "time"
        for ask in (lambda: shell(box, "true"), lambda: box.snapshot(limit=MEGABYTE)):
            with pytest.raises(BoxSpentError):
                ask()


def test_stop_twice_and_ask_afterwards(backend: Backend) -> None:
    with open_box(backend) as box:
        shell(box, "true")
    used = box.usage()
    box.stop()
    box.kill()
    assert used.cpu_seconds > 0
    assert box.usage() == used
    with pytest.raises(BoxDeadError):
        shell(box, "true")
    with pytest.raises(BoxDeadError):
        box.read("x", limit=1)


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


def test_time_passes_in_a_box_as_outside(backend: Backend) -> None:
    with open_box(backend) as box:
        began = time.monotonic()
        done = shell(box, "sleep 0.3")
    assert 0.3 <= done.seconds <= time.monotonic() - began
