"""Text that came out of a box: kept raw for the record, cleaned and cut for the policy."""

import re

from sandbox_worker.sandbox.base import Completed

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: window titles, clipboard, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|[\x1b\x9b]\[?[0-?]*[ -/]*[@-~]"  # CSI and the two-character escapes
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def recordable(text: str) -> str:
    """The same text without what a database refuses: NULs and lone surrogates are spelled out."""
    spelled = text.replace("\0", "\\x00")
    return spelled.encode("utf-8", "backslashreplace").decode("utf-8")


def raw_output(data: bytes) -> str:
    """Every byte is still there: invalid UTF-8 and NULs are spelled out."""
    return recordable(data.decode("utf-8", "backslashreplace"))


def cleaned(text: str) -> str:
    """What a reader of a terminal would see: no escapes, no control characters, overwritten progress gone."""
    without_escapes = _ESCAPES.sub("", text)
    lines = without_escapes.replace("\r\n", "\n").split("\n")
    return _CONTROLS.sub("", "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines))


def cut(text: str, characters: int) -> str:
    """Head and tail of a text with a note of what is missing; the note comes on top of the characters."""
    if len(text) <= characters:
        return text
    head = (characters + 1) // 2
    tail = characters - head
    missing = len(text) - characters
    return f"{text[:head]}[… {missing} characters cut …]{text[len(text) - tail :]}"


def observe(completed: Completed, *, characters: int) -> str:
    """What the policy is told of a command (feedback level exit-and-output)."""
    output = cleaned(completed.output.decode("utf-8", "replace")).strip("\n")
    return f"exit {completed.exit_code}\n{cut(output, characters)}".rstrip("\n")
