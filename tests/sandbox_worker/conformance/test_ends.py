"""How a command ends, and that nothing of it is left when it has."""

import threading
import time

import pytest

from sandbox_worker.sandbox.base import Backend, BoxSpec, CommandRefusedError, End
from tests.sandbox_worker.sandbox.boxes import MARK, MEGABYTE, open_box, processes_with, python, said, shell

NAP = f"31337.{MARK.rpartition('-')[2]}"


def test_a_command_that_there_is_not_ends_with_127(backend: Backend) -> None:
    with open_box(backend) as box:
        done = box.run(["no-such-program"], timeout=20)
    assert (done.end, done.exit_code) == (End.EXITED, 127)
    assert b"no-such-program" in done.output


@pytest.mark.parametrize("command", ["a\0b", "a\ud800b"])
def test_a_command_that_no_process_can_have_is_not_run(backend: Backend, command: str) -> None:
    with open_box(backend) as box:
        done = shell(box, command)
        assert (done.end, done.exit_code) == (End.EXITED, 126)
        assert done.output.startswith(b"cannot run: ")
        assert said(shell(box, "echo alive")) == "alive"


@pytest.mark.parametrize("megabytes", [2, 20])
def test_a_command_longer_than_the_kernel_takes_is_not_run(backend: Backend, megabytes: int) -> None:
    with open_box(backend) as box:
        done = shell(box, ":" * megabytes * 2**20)
        assert (done.end, done.exit_code) == (End.EXITED, 126)
        assert said(shell(box, "echo alive")) == "alive"


def test_a_very_long_time_is_fine(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "echo fine", timeout=1e9).output == b"fine\n"


def test_a_command_has_the_boxes_environment_and_its_own_alone(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "1")
    box = backend.start(BoxSpec(env=(("FROM_SPEC", "a"), ("BOTH", "spec"))))
    done = box.run(["env"], timeout=20, env={"FROM_CALL": "b", "BOTH": "call"})
    box.stop()
    assert set(said(done).splitlines()) == {
        "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/app", "LANG=C.UTF-8", "FROM_SPEC=a", "FROM_CALL=b", "BOTH=call",
    }  # fmt: skip


def test_a_box_that_is_given_out_has_the_environment_of_whom_it_is_given_to(backend: Backend) -> None:
    box = backend.start(BoxSpec())
    box.give(env=(("GIVEN", "yes"),), label="4.5.6")
    done = shell(box, "echo $GIVEN")
    box.stop()
    assert done.output == b"yes\n"


def test_signals_do_what_they_do_by_default(backend: Backend) -> None:
    with open_box(backend) as box:
        masks = said(shell(box, "grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f2 | sort -u")).split()
    # Numbers 32 and 33 are the C library's own: no program can set them, and it sets them itself where it needs them.
    assert {int(mask, 16) & ~(0b11 << 31) for mask in masks} == {0}


def test_r20_a_code_that_looks_like_an_end_is_only_a_code(backend: Backend) -> None:
    with open_box(backend) as box:
        for code in (1, 2, 124, 125, 126, 127, 128, 137, 139, 143, 255):
            done = shell(box, f"exit {code}")
            assert (done.end, done.exit_code, done.finished) == (End.EXITED, code, True)


def test_r20_a_signal_is_told_apart_from_a_code(backend: Backend) -> None:
    script = "import os, signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), {0}); signal.pause()"
    with open_box(backend) as box:
        for number in (2, 6, 9, 11, 15):
            done = python(box, script.format(number))
            assert (done.end, done.exit_code, done.finished) == (End.SIGNALLED, 128 + number, False)


def test_r15_time_is_up_also_for_what_ignores_signals(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "trap '' TERM INT HUP; echo begun; while :; do :; done", timeout=0.5)
        assert (done.end, done.exit_code, done.output) == (End.TIMED_OUT, 124, b"begun\n")
        assert done.seconds < 1.5
        assert said(shell(box, "echo next")) == "next"


def test_r15_time_is_up_also_for_a_stopped_command(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "kill -STOP $$", timeout=0.5).end is End.TIMED_OUT
        assert said(shell(box, "echo next")) == "next"


def test_r16_a_daemon_that_holds_the_output_ends_with_its_command(backend: Backend) -> None:
    daemon = f"setsid -f sleep {NAP}; (trap '' HUP TERM; sleep {NAP}) & disown; setsid -f sleep {NAP} &"
    with open_box(backend) as box:
        done = shell(box, f"{daemon} echo done")
        assert (done.end, done.output) == (End.EXITED, b"done\n")
        assert not processes_with(NAP)
        shell(box, f"{daemon} sleep 60", timeout=0.5)
        assert not processes_with(NAP)


def test_r17_a_background_job_that_holds_the_output_keeps_nobody_waiting(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "sleep 50 & echo done")
    assert (done.end, done.output) == (End.EXITED, b"done\n")
    assert done.seconds < 20


def test_r60_the_next_command_meets_nothing_of_the_one_before(backend: Backend) -> None:
    racer = """
import os
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        while True: open("/app/reward", "w").write("1")
"""
    with open_box(backend) as box:
        python(box, racer, timeout=0.5)
        shell(box, f"(while :; do echo 1 > /app/reward; done) & setsid -f sleep {NAP}; sleep 0.2")
        seen = python(box, "import os; print([n for n in os.listdir('/proc') if n.isdigit()], os.listdir('/app'))")
        assert said(seen).count("'") == 2 * 2 + 2  # the supervisor, the one that looks, and the file
        box.write("/app/reward", b"0")
        time.sleep(0.2)
        assert box.read("/app/reward", limit=10) == b"0"


def test_r22_a_cancelled_command_ends_with_all_that_it_started_and_the_box_lives_on(backend: Backend) -> None:
    with open_box(backend) as box:
        canceller = threading.Timer(0.5, box.cancel)
        canceller.start()
        done = shell(box, f"trap '' TERM INT; setsid -f sleep {NAP}; echo begun; sleep {NAP}", timeout=60)
        canceller.join()
        assert (done.end, done.exit_code, done.output, done.finished) == (End.CANCELLED, 124, b"begun\n", False)
        assert done.seconds < 2.5
        assert not processes_with(NAP)
        assert said(shell(box, "echo alive")) == "alive"


def test_a_cancelled_command_ends_and_the_box_lives_on(backend: Backend) -> None:
    with open_box(backend) as box:
        canceller = threading.Timer(0.3, box.cancel)
        canceller.start()
        done = shell(box, "sleep 60", timeout=60)
        canceller.join()
        assert (done.end, done.exit_code, done.finished) == (End.CANCELLED, 124, False)
        assert said(shell(box, "echo alive")) == "alive"


def test_a_command_that_is_cancelled_while_its_input_is_on_its_way_ends(backend: Backend) -> None:
    sent = bytes(128 * MEGABYTE)
    with open_box(backend) as box:
        cancellers = [threading.Timer(seconds, box.cancel) for seconds in (0.05, 0.1)]
        for canceller in cancellers:
            canceller.start()
        done = shell(box, "sleep 60", timeout=15, stdin=sent)
        for canceller in cancellers:
            canceller.join()
        assert (done.end, done.finished) == (End.CANCELLED, False)
        assert said(shell(box, "echo alive")) == "alive"


def test_cancelling_a_box_that_does_nothing_does_nothing(backend: Backend) -> None:
    with open_box(backend) as box:
        for _ in range(3):
            box.cancel()
        assert said(shell(box, "echo alive")) == "alive"
        box.cancel()
        box.write("file", b"x" * 2**20)
        assert len(box.read("file", limit=2**20)) == 2**20


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf"), 1e10])
def test_a_time_that_no_command_can_have_is_refused_and_costs_nothing(backend: Backend, timeout: float) -> None:
    with open_box(backend) as box:
        with pytest.raises(CommandRefusedError, match=r"^timeout: .*above 0 and at most"):
            box.run(["true"], timeout=timeout)
        assert said(shell(box, "echo alive")) == "alive"
