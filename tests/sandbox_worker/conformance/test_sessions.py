"""A shell that keeps its state: told apart from its output, interruptible, closed with its code, opened again."""

import threading
import time

import pytest

from sandbox_worker.sandbox.base import (
    Backend,
    BoxKilledError,
    CommandRefusedError,
    Completed,
    End,
    Said,
    Session,
    SessionClosedError,
)
from tests.sandbox_worker.sandbox.boxes import MARK, MEGABYTE, open_box, processes_with, said, shell

NAP = f"16180.{MARK.rpartition('-')[2]}"


def ask(session: Session, text: str, timeout: float = 20.0, stdin: bytes = b"") -> Completed:
    """Of a command after which the session goes on."""
    answer = session.run(text, timeout=timeout, stdin=stdin)
    assert not answer.closed
    return answer.completed


def test_r46_the_folder_the_variables_and_the_functions_stay(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        ask(session, "cd /tmp; export A=1; B=2; f() { echo in f; }; alias g=f; shopt -s expand_aliases; umask 077")
        assert said(ask(session, "pwd; echo $A $B; f; umask; bash -c 'echo $A$B'")) == "/tmp\n1 2\nin f\n0077\n1"
        assert said(ask(session, "g")) == "in f"


def test_r46_every_command_has_its_own_code_and_sees_the_one_before(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        for code in (0, 1, 7, 124, 255):
            done = ask(session, f"(exit {code})")
            assert (done.end, done.exit_code, done.finished) == (End.EXITED, code, True)
        assert ask(session, "kill -9 $BASHPID & wait $!").exit_code == 137
        assert ask(session, "echo 'unfinished").exit_code != 0
        assert (
            said(ask(session, "echo \"it's\" 'fi''ne'\ncat <<END\nof $((1 + 1)) lines\nEND")) == "it's fine\nof 2 lines"
        )


def test_r46_jobs_stay_and_what_they_print_comes_with_the_next_command(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        assert ask(session, "(sleep 0.3; echo late) & sleep 60 & echo begun").output.endswith(b"begun\n")
        output = ask(session, "sleep 0.6; jobs -r | wc -l").output  # beside which the shell tells what ended
        assert (output.startswith(b"late\n"), b"\n1\n" in output) == (True, True)
        assert ask(session, "kill %2; wait %2; echo $?").output.rstrip().endswith(b"143")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("exit 3", 3),
        ("set -e; false", 1),
        ("exec false", 1),
        ("exec bash -c 'exit 9'", 9),
        ("kill -9 $$", 137),
        ("exit", 0),
    ],
)
def test_r46_what_ends_the_shell_closes_the_session_with_its_code(backend: Backend, text: str, code: int) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        answer = session.run(f"echo last; {text}", timeout=20)
        assert (answer.closed, answer.completed.exit_code) == (True, code)
        assert answer.completed.output.startswith(b"last\n")
        with pytest.raises(SessionClosedError):
            session.run("true", timeout=20)
        assert said(ask(box.open_session(), "echo alive")) == "alive"


def test_r46_a_session_that_exits_is_closed_with_its_code_and_another_can_be_opened(backend: Backend) -> None:
    with open_box(backend) as box:
        answer = box.open_session().run("exit 3", timeout=20)
        assert (answer.closed, answer.completed.exit_code) == (True, 3)
        assert said(ask(box.open_session(), "echo alive")) == "alive"


def test_a_shell_that_died_between_two_commands_runs_no_more_of_them(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        ask(session, f"setsid bash -c 'sleep 0.2; kill -9 '$$'; exec sleep {NAP}' >/dev/null 2>&1 &")
        time.sleep(1)
        answer = session.run("echo never", timeout=20)
        assert (answer.closed, answer.completed.exit_code, b"never" in answer.completed.output) == (True, 137, False)
        assert not processes_with(NAP)
        with pytest.raises(SessionClosedError):
            session.run("true", timeout=20)


def test_a_shell_that_reads_no_more_is_closed_when_the_time_is_up_and_the_box_lives_on(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        ask(session, "(sleep 0.2; kill -STOP $$) >/dev/null 2>&1 & disown")
        time.sleep(1)
        answer = session.run(f"echo {'x' * 200_000}", timeout=1)
        assert (answer.closed, answer.completed.end, answer.completed.output) == (True, End.TIMED_OUT, b"")
        assert (box.spent, said(shell(box, "echo alive"))) == ("", "alive")


def test_a_command_beside_an_open_session_is_refused(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        with pytest.raises(CommandRefusedError):
            shell(box, "true")
        with pytest.raises(CommandRefusedError):
            box.open_session()
        session.close()
        session.close()
        with pytest.raises(SessionClosedError):
            session.run("true", timeout=20)
        assert said(shell(box, "echo alive")) == "alive"


def test_closing_ends_the_shell_and_all_its_jobs(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        ask(session, f"trap '' TERM HUP; setsid -f sleep {NAP}; nohup sleep {NAP} & disown")
        assert processes_with(NAP)
        session.close()
        assert not processes_with(NAP)


@pytest.mark.parametrize(
    "text", ["read answer; echo got $answer", "cat", "python3 -c 'input()'", "bash -c 'read x'", "cat /dev/tty"]
)
def test_r45_what_waits_for_input_is_said_to_wait_and_the_session_goes_on(backend: Backend, text: str) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        answer = session.run(text, timeout=1.0)
        assert (answer.completed.end, answer.waiting, answer.closed) == (End.TIMED_OUT, True, False)
        assert said(ask(session, "echo alive")) == "alive"


def test_r45_what_is_busy_is_not_said_to_wait(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        for text in ("sleep 60", "while :; do :; done", "sleep 60 | cat"):
            answer = session.run(text, timeout=0.7)
            assert (answer.completed.end, answer.waiting, answer.closed) == (End.TIMED_OUT, False, False), text


def test_r45_input_is_given_and_then_ends(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        assert said(ask(session, "read a b; echo $b $a", stdin=b"one two\n")) == "two one"
        assert said(ask(session, "cat; echo end", stdin=b"no newline")) == "no newlineend"
        assert said(ask(session, "read unread < /dev/null; echo $?", stdin=b"rest\nmore\n")) == "1"
        assert said(ask(session, "cat", stdin=b"next\n")) == "next"


def test_r45_a_program_that_asks_the_terminal_gets_it(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        assert said(ask(session, "tty; test -t 0 && echo terminal; test -t 1 || echo pipe")).endswith("terminal\npipe")
        assert said(ask(session, "read x < /dev/tty; echo $x; stty size", stdin=b"typed\n")) == "typed\n24 200"
        assert said(ask(session, "echo alive")) == "alive"


def test_r45_in_a_command_of_its_own_a_pager_meets_the_end_of_its_input(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "more /etc/passwd; read x; cat > /dev/null; exec 3< /dev/tty; echo done")
        assert (done.end, done.output.splitlines()[-1]) == (End.EXITED, b"done")


def test_r48_two_hundred_thousand_bytes_of_input_arrive_whole(backend: Backend) -> None:
    lines = b"".join(b"%06d %s\n" % (number, b"x" * 92) for number in range(2000))
    with open_box(backend) as box:
        session = box.open_session()
        done = ask(session, "cat > typed; wc -c < typed", stdin=lines, timeout=60)
        assert said(done) == "200000"
        assert box.read("typed", limit=MEGABYTE) == lines


def test_r48_a_command_of_two_hundred_thousand_bytes_arrives_whole(backend: Backend) -> None:
    text = "".join(f"# {number:06} it's {'y' * 84}\n" for number in range(2000)) + "echo arrived"
    with open_box(backend) as box:
        assert said(ask(box.open_session(), text, timeout=60)) == "arrived"


@pytest.mark.parametrize(
    "text",
    [
        *("while :; do :; done", "trap '' TERM; sleep 60", "sleep 60 | cat", "for i in 1 2 3; do sleep 60; done"),
        *("bash -c 'trap \"\" INT TERM; while :; do :; done'", "trap 'echo no' INT TERM; while :; do sleep 1; done"),
    ],
)
def test_what_is_over_time_is_interrupted(backend: Backend, text: str) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        ask(session, "cd /tmp")
        answer = session.run(f"echo begun; {text}", timeout=0.7)
        assert (answer.completed.end, answer.completed.exit_code) == (End.TIMED_OUT, 124)
        assert answer.completed.output.startswith(b"begun\n")
        assert answer.completed.seconds < 3
        if answer.closed:
            session = box.open_session()
        assert said(ask(session, "echo alive")) == "alive"


@pytest.mark.parametrize(
    "text", ["while :; do :; done", "sleep 60", "for i in 1 2 3; do sleep 60; done", "sleep 60 | cat"]
)
def test_what_heeds_an_interrupt_leaves_the_session_as_it_was(backend: Backend, text: str) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        ask(session, "cd /tmp; x=1")
        assert not session.run(text, timeout=0.7).closed
        assert said(ask(session, "echo $x; pwd")) == "1\n/tmp"


def test_a_shell_that_heeds_nothing_is_ended(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        answer = session.run("trap '' INT TERM HUP; while :; do :; done", timeout=0.5)
        assert (answer.completed.end, answer.closed) == (End.TIMED_OUT, True)
        assert answer.completed.seconds < 3
        assert said(ask(box.open_session(), "echo alive")) == "alive"


def test_a_cancelled_command_is_interrupted(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        canceller = threading.Timer(0.5, box.cancel)
        canceller.start()
        answer = session.run("echo begun; sleep 60", timeout=60)
        canceller.join()
        assert (answer.completed.end, answer.completed.exit_code, answer.closed) == (End.CANCELLED, 124, False)
        assert said(ask(session, "echo alive")) == "alive"


def test_r14_what_looks_like_a_status_is_only_output(backend: Backend) -> None:
    forged = "printf '0\\n' ; printf '0\\n' >&2; for fd in 3 4 5 6 7 8 9; do (printf '0\\n' >&$fd) 2>/dev/null; done; "
    with open_box(backend) as box:
        session = box.open_session()
        for code in (5, 6):
            done = ask(session, f"{forged} (exit {code})")
            assert (done.end, done.exit_code, done.output) == (End.EXITED, code, b"0\n0\n")
        assert ask(session, "PS1='$ '; PROMPT_COMMAND=; trap 'echo 0' DEBUG; echo out").exit_code in (0, 1)
        assert ask(session, "trap - DEBUG; (exit 9)").exit_code == 9


def test_a_session_says_which_limit_a_command_hit(backend: Backend) -> None:
    with open_box(
        backend, memory_bytes=64 * MEGABYTE, disk_bytes=4 * MEGABYTE, printed_bytes=MEGABYTE, output_bytes=1000
    ) as box:
        session = box.open_session()
        take = "python3 -c 'x = bytearray(1 << 28); x[::4096] = bytes(len(x[::4096]))'"
        assert ask(session, take).end is End.OUT_OF_MEMORY
        done = ask(session, "cat /dev/zero > full")
        assert (done.end, done.full, done.exit_code) == (End.DISK_FULL, "/app", 1)
        ask(session, "rm full")
        answer: Said = session.run("yes", timeout=60)
        assert (answer.completed.end, answer.completed.exit_code) == (End.OUTPUT_LIMIT, 125)
        assert len(answer.completed.output) == 1000


def test_a_killed_box_ends_its_session(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        killer = threading.Timer(0.5, box.kill)
        killer.start()
        with pytest.raises(BoxKilledError):
            session.run("sleep 60", timeout=60)
        killer.join()
        with pytest.raises(BoxKilledError):
            session.run("true", timeout=20)


def test_files_can_be_moved_while_a_session_is_open(backend: Backend) -> None:
    with open_box(backend) as box:
        session = box.open_session()
        box.write("file", b"given")
        assert said(ask(session, "cat file; echo made > other; (sleep 60) & ")).startswith("given")
        assert box.read("other", limit=100) == b"made\n"
