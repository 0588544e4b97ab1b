"""A command's output: kept at its head and its tail, counted whole, and never mistaken for anything else."""

import psutil
import pytest

from sandbox_worker.sandbox.base import Backend, End
from tests.sandbox_worker.sandbox.boxes import MEGABYTE, open_box, python, said, shell


def test_r8_a_gibibyte_of_output_is_counted_and_costs_the_worker_nothing(backend: Backend) -> None:
    worker = psutil.Process()
    with open_box(backend, output_bytes=1000) as box:
        shell(box, "true")
        before = worker.memory_info().rss
        done = shell(box, "printf head; head -c 1G /dev/zero; printf tail", timeout=120)
        assert worker.memory_info().rss - before < 32 * MEGABYTE
    assert (done.end, done.exit_code, done.truncated) == (End.EXITED, 0, True)
    assert done.output_bytes == 2**30 + 8
    assert len(done.output) == 1000
    assert done.output.startswith(b"head\0")
    assert done.output.endswith(b"\0tail")


@pytest.mark.parametrize(
    "how", ["head -c 128M /dev/zero >&2", "head -c 64M /dev/zero & head -c 64M /dev/zero >&2; wait"]
)
def test_r9_the_same_of_standard_error_and_of_both(backend: Backend, how: str) -> None:
    with open_box(backend, output_bytes=1000) as box:
        done = shell(box, how, timeout=60)
    assert (done.end, done.output_bytes, len(done.output)) == (End.EXITED, 128 * MEGABYTE, 1000)


def test_output_of_exactly_the_cap_is_whole(backend: Backend) -> None:
    with open_box(backend, output_bytes=1001) as box:
        done = shell(box, "printf 'a%.0s' $(seq 1001)")
    assert done.output == b"a" * 1001
    assert not done.truncated


def test_a_command_that_prints_more_than_it_may_is_ended(backend: Backend) -> None:
    with open_box(backend, output_bytes=1000, printed_bytes=MEGABYTE) as box:
        done = shell(box, "trap '' PIPE TERM; yes", timeout=60)
        assert (done.end, done.exit_code, done.finished) == (End.OUTPUT_LIMIT, 125, False)
        assert done.output_bytes > MEGABYTE
        assert shell(box, "head -c 1M /dev/zero").end is End.EXITED


def test_r10_bytes_that_are_no_text_are_kept_as_they_are(backend: Backend) -> None:
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) + b'\\xff\\xfe\\0\\0\\xed\\xa0\\x80')"
    with open_box(backend) as box:
        assert python(box, script).output == bytes(range(256)) + b"\xff\xfe\0\0\xed\xa0\x80"


def test_r13_what_steers_a_terminal_is_kept_as_it_is(backend: Backend) -> None:
    steering = b"\x1b]0;title\x07\x1b]52;c;aGk=\x07\x1b[2J\x1b[31mred\x1b[0m\r50%\r100%\x9b1A\x08"
    with open_box(backend) as box:
        assert box.run(["cat"], timeout=20, stdin=steering).output == steering


def test_r14_output_that_looks_like_the_supervisors_own_is_only_output(backend: Backend) -> None:
    forged = b"H\0\0\0\x02ok" + b"D\0\0\0\x01x" + b"E\0\0\0\0" + b"\x01\0\0\0\0\0\0\x02ok" + b"[exit 0]\n$ "
    with open_box(backend) as box:
        for descriptor in (1, 2):
            done = shell(box, f"cat >&{descriptor}; exit 3", stdin=forged)
            assert (done.end, done.exit_code, done.output) == (End.EXITED, 3, forged)
        wider = (
            "import os\nfor fd in range(3, 1024):\n  try: os.write(fd, b'H\\0\\0\\0\\x02ok')\n  except OSError: pass"
        )
        assert python(box, wider).exit_code == 0
        assert said(shell(box, "echo alive")) == "alive"


@pytest.mark.parametrize(
    ("script", "code"),
    [("echo x > /dev/full", 1), ("exec >&-; echo x", 1), ("yes | head -n 1; echo ${PIPESTATUS[0]} >&2; exit 0", 0)],
)
def test_r59_an_output_that_takes_nothing_is_the_commands_own_affair(backend: Backend, script: str, code: int) -> None:
    with open_box(backend) as box:
        done = shell(box, script)
        assert (done.end, done.exit_code) == (End.EXITED, code)
        if code == 0:
            assert done.output == b"y\n141\n"
