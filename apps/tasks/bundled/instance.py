"""What one generated task consists of, and the checks that its tests are written with."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from shlex import quote


@dataclass(frozen=True)
class File:
    """One file of the environment, below the working folder."""

    path: str
    text: str
    executable: bool = False


@dataclass(frozen=True)
class Instance:
    instruction: str
    rounds: tuple[str, ...]
    """The reference: one shell command a round."""
    tests: str
    """Text of tests/test.sh."""
    wrong: str
    """A plausible command that must not pass: never written into the folder, proven by our own tests."""
    files: tuple[File, ...] = ()

    @property
    def round_limit(self) -> int:
        return len(self.rounds)


Maker = Callable[[Random], Instance]


def script(*checks: str) -> str:
    """Text of test.sh out of its checks."""
    return "\n".join(
        ("#!/bin/bash", "# Looks only at what the agent left in /app.", '. "${0%/*}/checks.sh"', *checks, "finish", "")
    )


def holds(path: str, text: str) -> str:
    return f"check {quote(f'{path} holds what was asked for')} holds {quote(path)} {quote(text)}"


def untouched(file: File) -> str:
    return f"check {quote(f'{file.path} is as it was')} same {quote(file.path)} {quote(file.text)}"


def absent(path: str) -> str:
    return f"check {quote(f'{path} is gone')} absent {quote(path)}"


def is_folder(path: str) -> str:
    return f"check {quote(f'{path} is a folder')} folder {quote(path)}"


def entries(names: list[str]) -> str:
    return f"check 'nothing else was made' entries {quote(chr(10).join(sorted(names)))}"


def returns(path: str, function: str, cases: dict[tuple[int, int], int]) -> str:
    arguments, expected = quote(str(list(cases))), quote(str([repr(value) for value in cases.values()]))
    return f"check {quote(f'{function} is right')} returns {quote(path)} {function} {arguments} {expected}"
