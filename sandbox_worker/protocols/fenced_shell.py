"""The protocol fenced-shell@1: one fenced block of shell a round; a message without one submits.

Short on purpose: the policies trained here are small, and every word is in every prompt.
"""

import re
from dataclasses import dataclass

SYSTEM_PROMPT = "Reply with one ```sh block."
GIVE_UP = "GIVE UP"
SUBMIT_MESSAGE = "Done."

_OPENING = re.compile(r"^[ \t]*(?P<fence>`{3,})[ \t]*(?:sh|bash|shell)?[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """Run this script."""

    script: str


@dataclass(frozen=True)
class Submit:
    """The agent says that it is done."""


@dataclass(frozen=True)
class GiveUp:
    """The agent says that it cannot."""


@dataclass(frozen=True)
class Unfinished:
    """The message was cut before it said what to do."""


Action = Command | Submit | GiveUp | Unfinished


def parse(message: str, *, cut: bool) -> Action:
    """The first fenced block is the command. An unclosed one counts only if the policy itself ended the message."""
    if message.lstrip().startswith(GIVE_UP):
        return GiveUp()
    opening = _OPENING.search(message)
    if opening is None:
        return Unfinished() if cut else Submit()
    body = message[opening.end() :].removeprefix("\n")
    closing = re.search(rf"^[ \t]*{opening['fence']}`*[ \t]*$", body, re.MULTILINE)
    if closing is not None:
        return Command(body[: closing.start()])
    return Unfinished() if cut else Command(body)


def compose(script: str) -> str:
    """The message that a policy would write to run a script."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", script)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{script.rstrip()}\n{fence}"
