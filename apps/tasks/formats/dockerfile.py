"""The part of a Dockerfile that needs no build: FROM, WORKDIR, COPY, ENV, USER, LABEL.

Boxes run on the host's own programs, so anything that builds an image is refused by name and line.
"""

import json
import posixpath
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NoReturn

from apps.tasks.formats.errors import TaskFormatError

PATH = "environment/Dockerfile"


@dataclass(frozen=True)
class Copy:
    sources: tuple[str, ...]
    """Relative to environment/, as written."""
    destination: str
    """Absolute; ends with a slash where a folder is meant."""
    line: int


@dataclass(frozen=True)
class Dockerfile:
    base: str = ""
    workdir: str = ""
    """Absolute; empty where the file names none."""
    user: str = ""
    env: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    copies: tuple[Copy, ...] = field(default=())


def parse_dockerfile(text: str) -> Dockerfile:
    """Raises TaskFormatError that says what needs Docker."""
    parsed = Dockerfile()
    for line, instruction in instructions(text):
        word, _, rest = instruction.partition(" ")
        parsed = add(parsed, word.upper(), rest.strip(), line)
    if not parsed.base:
        raise TaskFormatError(PATH, "FROM", None, "there is no FROM", "Begin with FROM assay/base.")
    return parsed


def instructions(text: str) -> Iterator[tuple[int, str]]:
    """Line number and text of each, continuations joined, comments left out."""
    start, joined = 0, ""
    for number, raw in enumerate(text.splitlines(), start=1):
        stripped = raw.strip()
        if not stripped or stripped.startswith("#"):
            continue
        start = start or number
        if stripped.endswith("\\"):
            joined += stripped[:-1] + " "
            continue
        yield start, (joined + stripped).replace("\t", " ")
        start, joined = 0, ""
    if joined.strip():
        yield start, joined.strip()


def add(parsed: Dockerfile, word: str, rest: str, line: int) -> Dockerfile:
    if word == "FROM":
        return replace(parsed, base=only_base(parsed, rest, line))
    if not parsed.base:
        needs_docker(word, rest, line, "comes before FROM")
    match word:
        case "WORKDIR":
            return replace(parsed, workdir=resolved(parsed, plain(word, rest, line)).rstrip("/") or "/")
        case "USER":
            return replace(parsed, user=plain(word, rest, line))
        case "ENV":
            return replace(parsed, env=parsed.env + pairs(word, rest, line))
        case "LABEL":
            return replace(parsed, labels=parsed.labels + pairs(word, rest, line))
        case "COPY":
            return replace(parsed, copies=(*parsed.copies, copy(parsed, rest, line)))
    raise needing_docker(word, rest, line, "is not supported without a build")


def only_base(parsed: Dockerfile, rest: str, line: int) -> str:
    if parsed.base or len(rest.split()) != 1:
        needs_docker("FROM", rest, line, "with stages or a platform is not supported")
    return plain("FROM", rest, line)


def plain(word: str, rest: str, line: int) -> str:
    if not rest or "$" in rest:
        needs_docker(word, rest, line, "must hold a plain value")
    return rest.strip('"')


def pairs(word: str, rest: str, line: int) -> tuple[tuple[str, str], ...]:
    try:
        words = shlex.split(plain_values(word, rest, line))
    except ValueError as error:
        needs_docker(word, rest, line, f"cannot be read ({error})")
    if all("=" in item for item in words):
        return tuple((key, value) for key, _, value in (item.partition("=") for item in words))
    key, _, value = rest.partition(" ")
    return ((key, value.strip()),)


def plain_values(word: str, rest: str, line: int) -> str:
    if not rest or "$" in rest:
        needs_docker(word, rest, line, "must hold plain values")
    return rest


def copy(parsed: Dockerfile, rest: str, line: int) -> Copy:
    if rest.startswith(("--", "<<")) or any(letter in rest for letter in "*?$"):
        needs_docker("COPY", rest, line, "with options, patterns or variables is not supported")
    words = listed(rest, line) if rest.startswith("[") else rest.split()
    if len(words) < 2:
        needs_docker("COPY", rest, line, "must name a source and a destination")
    *sources, target = words
    if len(sources) > 1 and not target.endswith("/"):
        needs_docker("COPY", rest, line, "of several files must end with a folder and a slash")
    return Copy(tuple(sources), resolved(parsed, target), line)


def listed(rest: str, line: int) -> list[str]:
    try:
        words = json.loads(rest)
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        needs_docker("COPY", rest, line, "is not a list of texts")
    return words


def resolved(parsed: Dockerfile, target: str) -> str:
    """Absolute, keeping the slash that says folder."""
    folder = target.endswith(("/", "/.")) or target in (".", "./")
    path = posixpath.normpath(posixpath.join(parsed.workdir or "/", target))
    return path.rstrip("/") + "/" if folder else path


def needs_docker(word: str, rest: str, line: int, why: str) -> NoReturn:
    raise needing_docker(word, rest, line, why)


def needing_docker(word: str, rest: str, line: int, why: str) -> TaskFormatError:
    way_out = "Boxes here use the host's programs: keep to FROM, WORKDIR, COPY, ENV, USER and LABEL."
    return TaskFormatError(PATH, f"line {line}", f"{word} {rest}".strip(), f"needs Docker: {word} {why}", way_out)
