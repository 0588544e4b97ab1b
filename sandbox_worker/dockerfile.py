"""The part of a Dockerfile that needs no Docker: FROM, WORKDIR, COPY and ENV.

Anything else is refused with its line, never half obeyed.
"""

import json
import posixpath
import shlex
from dataclasses import dataclass, field

from sandbox_worker.errors import SandboxWorkerError

DEFAULT_WORKDIR = "/app"


class NeedsDockerError(SandboxWorkerError):
    """The environment cannot be made without Docker; names the instruction and the line."""

    def __init__(self, line: int, instruction: str, why: str) -> None:
        super().__init__(f"needs Docker: {instruction} (line {line} of environment/Dockerfile): {why}")
        self.line = line
        self.instruction = instruction


@dataclass(frozen=True)
class Copy:
    """One COPY: sources in the build context, and an absolute target."""

    line: int
    sources: tuple[str, ...]
    target: str
    into_folder: bool


@dataclass
class Environment:
    """What the Dockerfile asks for."""

    workdir: str = DEFAULT_WORKDIR
    env: dict[str, str] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    bases: int = 0


def read_dockerfile(text: str) -> Environment:
    """Raises NeedsDockerError."""
    found = Environment()
    for line, instruction, rest in _instructions(text):
        if instruction == "FROM":
            _from(found, line, rest)
        elif instruction == "WORKDIR":
            _refuse_variables(line, instruction, rest)
            found.workdir = posixpath.normpath(posixpath.join(found.workdir if found.bases else "/", rest.strip()))
        elif instruction == "COPY":
            found.copies.append(_copy(found, line, rest))
        elif instruction == "ENV":
            found.env |= _env(line, rest)
        else:
            raise NeedsDockerError(line, instruction, "only FROM, WORKDIR, COPY and ENV work without it")
    return found


def _instructions(text: str) -> list[tuple[int, str, str]]:
    """Line number, keyword and arguments of each instruction, with continued lines joined."""
    found: list[tuple[int, str, str]] = []
    start, joined = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#") or (not line.strip() and not joined):
            continue
        start = start or number
        joined += line.removesuffix("\\") if line.endswith("\\") else line
        if line.endswith("\\"):
            continue
        keyword, _, rest = joined.strip().partition(" ")
        found.append((start, keyword.upper(), rest.strip()))
        start, joined = 0, ""
    return found


def _from(found: Environment, line: int, rest: str) -> None:
    found.bases += 1
    if found.bases > 1:
        raise NeedsDockerError(line, "FROM", "a second stage")
    if rest.startswith("--"):
        raise NeedsDockerError(line, "FROM", "flags")


def _refuse_variables(line: int, instruction: str, text: str) -> None:
    if "$" in text:
        raise NeedsDockerError(line, instruction, "variables")


def _copy(found: Environment, line: int, rest: str) -> Copy:
    _refuse_variables(line, "COPY", rest)
    if rest.startswith("--"):
        raise NeedsDockerError(line, "COPY", "flags")
    words = _words(line, "COPY", rest)
    if len(words) < 2:
        raise NeedsDockerError(line, "COPY", "no source or no target")
    *sources, target = words
    if any(sign in source for source in sources for sign in "*?["):
        raise NeedsDockerError(line, "COPY", "wildcards")
    absolute = posixpath.normpath(posixpath.join(found.workdir, target))
    into = target.endswith("/") or len(sources) > 1 or target in (".", "..") or absolute == found.workdir
    return Copy(line=line, sources=tuple(sources), target=absolute, into_folder=into)


def _words(line: int, instruction: str, rest: str) -> list[str]:
    try:
        if rest.startswith("["):
            words = json.loads(rest)
            return [str(word) for word in words]
        return shlex.split(rest)
    except ValueError as error:
        raise NeedsDockerError(line, instruction, str(error)) from error


def _env(line: int, rest: str) -> dict[str, str]:
    _refuse_variables(line, "ENV", rest)
    words = _words(line, "ENV", rest)
    if words and "=" not in words[0]:
        name, _, value = rest.partition(" ")
        return {name: value.strip()}
    if not all("=" in word for word in words):
        raise NeedsDockerError(line, "ENV", "not NAME=value")
    return dict(word.split("=", 1) for word in words)
