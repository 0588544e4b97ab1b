"""Text of models and tasks is shown, never obeyed."""

from hypothesis import given
from hypothesis import strategies as st

from apps.dashboard.hostile import cut, visible


def test_colour_codes_go_and_other_controls_are_signs() -> None:
    assert visible("\x1b[31mred\x1b[0m\x07\x00") == "red\u2407\u2400"


def test_a_bare_escape_is_seen() -> None:
    assert visible("a\x1bcb") == "a\u241bcb"


def test_direction_overrides_and_invisible_letters_are_named() -> None:
    assert visible("abc\u202etxt\u200b") == "abc\u27e8U+202E\u27e9txt\u27e8U+200B\u27e9"


def test_lines_and_tabs_stay() -> None:
    assert visible("one\r\n\ttwo\n") == "one\n\ttwo\n"


@given(st.text())
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    assert all(ord(character) >= 0x20 or character in "\n\t" for character in visible(text))


def test_a_long_text_keeps_head_and_tail_and_says_what_is_missing() -> None:
    shown, left_out = cut("a" * 50 + "b" * 50, longest=20)
    assert shown.startswith("aaaaaaaaaa\n")
    assert shown.endswith("\nbbbbbbbbbb")
    assert left_out == 80
