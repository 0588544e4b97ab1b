import time

import pytest

from sandbox_worker.observation import cleaned, cut, observe, raw_output, recordable
from sandbox_worker.sandbox.base import Completed, End


def completed(output: bytes, exit_code: int = 0) -> Completed:
    return Completed(end=End.EXITED, exit_code=exit_code, output=output, output_bytes=len(output), seconds=0.0)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10%\r50%\r100%\nready\r\n", "100%\nready\n"),
        ("old\rnew\r\r\nlast\r", "new\nlast"),
        ("a\x00b\x08c\td", "abc\td"),
        ("\u202eevil", "evil"),
        ("\x1bPq payload \x1b\\ok", "ok"),
    ],
)
def test_the_policy_sees_no_escapes_and_no_control_characters(raw: str, shown: str) -> None:
    assert cleaned(raw) == shown


def test_a_long_line_takes_no_time_that_grows_with_its_square() -> None:
    began = time.process_time()
    assert cleaned("a" * 2_000_000) == "a" * 2_000_000
    assert time.process_time() - began < 5


def test_the_record_keeps_every_byte_but_no_nul() -> None:
    assert raw_output(b"a\x00\xff\x1b[0m\xc3\xa4") == "a\\x00\\xff\x1b[0mä"


def test_lone_surrogates_are_spelled_out() -> None:
    assert recordable("a\ud800b").encode() == b"a\\ud800b"


def test_a_long_text_keeps_head_and_tail_and_says_what_is_missing() -> None:
    assert cut("abcdefghij", 4) == "ab[… 6 characters cut …]ij"
    assert cut("abcdefghij", 5) == "abc[… 5 characters cut …]ij"
    assert cut("abc", 3) == "abc"
    assert cut("abc", 0) == "[… 3 characters cut …]"


def test_an_observation_is_the_exit_code_and_the_output() -> None:
    assert observe(completed(b"hello\n", 3), characters=400) == "exit 3\nhello"
    assert observe(completed(b""), characters=400) == "exit 0"


def test_binary_output_is_shown_with_replacements() -> None:
    assert observe(completed(b"\xff\xfe\x00x"), characters=400) == "exit 0\n��x"
