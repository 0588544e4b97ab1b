"""Checks 23 to 44 of 44: commands, their input and output, their end, their user and their folder."""

import time

import pytest

from sandbox_worker.sandbox.base import Backend, CommandRefusedError, End
from tests.sandbox_worker.sandbox.boxes import MARK, MEGABYTE, open_box, processes_with, python, said, shell

BEYOND_ASCII = "ž 馬 🐎"
SHELL_SPECIAL = b"$HOME `id` \\ \" ' ; & | > < * ? ~ ! # \n-n\t$(id)\r\n"


def test_23_standard_output_comes_as_it_was_written(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "echo one; printf two").output == b"one\ntwo"


def test_24_standard_error_comes_in_its_order_between_the_output(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "echo one; echo two >&2; echo three").output == b"one\ntwo\nthree\n"


def test_25_standard_output_beyond_ascii(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, f"echo '{BEYOND_ASCII}'").output.decode() == f"{BEYOND_ASCII}\n"


def test_26_standard_error_beyond_ascii(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, f"echo '{BEYOND_ASCII}' >&2").output.decode() == f"{BEYOND_ASCII}\n"


def test_27_an_exit_code_is_kept(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "exit 7")
    assert (done.end, done.exit_code, done.finished) == (End.EXITED, 7, True)


def test_28_a_time_limit_is_said_to_be_one(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "sleep 60", timeout=0.3)
        assert (done.end, done.exit_code, done.finished) == (End.TIMED_OUT, 124, False)
        assert shell(box, "echo next").output == b"next\n"


def test_29_a_quick_death_by_a_signal_is_no_time_limit(backend: Backend) -> None:
    with open_box(backend) as box:
        done = shell(box, "kill -KILL $$", timeout=20)
    assert (done.end, done.exit_code, done.finished) == (End.SIGNALLED, 128 + 9, False)


def test_30_a_time_limit_ends_the_process(backend: Backend) -> None:
    with open_box(backend) as box:
        box.run(["sleep", f"86399.{MARK[-3:]}"], timeout=0.3)
        assert not processes_with(f"86399.{MARK[-3:]}")


def test_31_a_time_limit_ends_the_children_too(backend: Backend) -> None:
    late = "(sleep 1; touch /tmp/a) & setsid bash -c 'sleep 1; touch /tmp/b' & nohup bash -c 'sleep 1; touch /tmp/c' &"
    with open_box(backend) as box:
        shell(box, f"{late} wait", timeout=0.3)
        time.sleep(1.5)
        assert shell(box, "ls /tmp").output == b""


def test_32_what_may_not_be_run_is_not_run(backend: Backend) -> None:
    with open_box(backend) as box:
        done = box.run(["/etc/passwd"], timeout=20)
    assert (done.end, done.exit_code) == (End.EXITED, 126)
    assert b"Permission denied" in done.output


def test_33_a_command_has_the_variables_that_it_was_given(backend: Backend) -> None:
    with open_box(backend) as box:
        done = box.run(["bash", "-c", 'echo "$GIVEN"'], timeout=20, env={"GIVEN": "a $b `c`"})
    assert said(done) == "a $b `c`"


def test_34_standard_input_that_is_text(backend: Backend) -> None:
    with open_box(backend) as box:
        assert shell(box, "cat; echo end", stdin=b"given\n").output == b"given\nend\n"
        assert shell(box, "cat; echo end").output == b"end\n"


def test_35_standard_input_that_is_special_to_a_shell(backend: Backend) -> None:
    with open_box(backend) as box:
        assert box.run(["cat"], timeout=20, stdin=SHELL_SPECIAL).output == SHELL_SPECIAL


def test_36_standard_input_that_is_no_text(backend: Backend) -> None:
    with open_box(backend) as box:
        assert box.run(["cat"], timeout=20, stdin=bytes(range(256))).output == bytes(range(256))


def test_37_fifty_mebibytes_of_standard_input(backend: Backend) -> None:
    with open_box(backend, memory_bytes=256 * MEGABYTE) as box:
        assert shell(box, "wc -c", stdin=b"x" * 50 * MEGABYTE).output == b"%d\n" % (50 * MEGABYTE)


def test_38_a_command_of_a_mebibyte(backend: Backend) -> None:
    words = [chr(97 + index) * 64 * 1024 for index in range(16)]
    with open_box(backend, memory_bytes=256 * MEGABYTE) as box:
        done = box.run(
            ["python3", "-c", "import sys; print([(w[0], len(w)) for w in sys.argv[1:]])", *words], timeout=30
        )
    assert said(done) == str([(word[0], 65536) for word in words])


def test_39_a_command_as_a_user_that_the_box_has(backend: Backend) -> None:
    with open_box(backend) as box:
        for user in ("agent", "1000"):
            assert said(box.run(["id", "-u"], timeout=20, user=user)) == "1000"


def test_40_a_command_as_a_user_that_there_is_not_is_refused(backend: Backend) -> None:
    with open_box(backend) as box:
        for user in ("nobody-of-this-name", "root", "0", "-1", "65534"):
            with pytest.raises(CommandRefusedError, match=f"^user: .*{user}"):
                box.run(["id"], timeout=20, user=user)
        assert said(shell(box, "id -u")) == "1000"


def test_41_a_command_begins_in_the_working_folder(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("file", b"")
        assert said(shell(box, "pwd; ls")) == "/app\nfile"


def test_42_a_command_begins_in_a_folder_of_the_system(backend: Backend) -> None:
    with open_box(backend) as box:
        assert said(box.run(["pwd"], timeout=20, cwd="/usr/bin")) == "/usr/bin"


def test_43_a_command_begins_in_a_folder_below_the_working_folder(backend: Backend) -> None:
    with open_box(backend) as box:
        box.write("a b/file", b"")
        assert said(box.run(["bash", "-c", "pwd; ls"], timeout=20, cwd="a b")) == "/app/a b\nfile"


def test_44_a_command_begins_in_a_folder_named_absolutely(backend: Backend) -> None:
    with open_box(backend) as box:
        assert said(python(box, "import os; os.makedirs('/tmp/a'); print(1)")) == "1"
        assert said(box.run(["pwd"], timeout=20, cwd="/tmp/a")) == "/tmp/a"
        for folder in ("/nowhere", "/etc/passwd", "nowhere"):
            with pytest.raises(CommandRefusedError, match=r"^folder: "):
                box.run(["pwd"], timeout=20, cwd=folder)
