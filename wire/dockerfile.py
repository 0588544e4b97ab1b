"""The part of a Dockerfile that needs no Docker, read alike by the importer of tasks and by the maker of boxes.

A file that only copies into the working folder needs no image at all; RUN, and COPY to elsewhere, need one built. What
cannot be built without Docker is refused with its line, never half obeyed.
"""

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

FOLDER = "environment"
PATH = f"{FOLDER}/Dockerfile"
NEEDING_DOCKER = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml", ".dockerignore")
"""Files of environment/ that change what the Dockerfile makes."""
_CONTINUED = re.compile(r"(?<!\\)\\\s*$")
_HERE_DOCUMENT = re.compile(r"(?:^|\s)\d*<<-?\s*[\"']?[A-Za-z_]")
_ROOT = ("root", "0", "root:root", "root:0", "0:root", "0:0")
_BOX_USER = ("1000", "1000:1000")
MOST_BUILD_SECONDS = 7200.0
IMAGE_NAME = re.compile(r"[A-Za-z0-9](?!.*\.\.)[A-Za-z0-9._:/@-]{0,511}", re.ASCII)
"""What can be the name of an image at all; whether there is one, its host knows."""
_PREBUILT_LINE = 0
BASE = "assay/base"
"""The base that needs no image: the programs of the host, or in Docker the bundled image of this name."""


class DockerfileError(Exception):
    """line: where the instruction begins. instruction: as written, in one line. why: what is wrong with it."""

    def __init__(self, line: int, instruction: str, why: str) -> None:
        shown = f" (it is {instruction[:120]!r})" if instruction else ""
        super().__init__(f"{PATH}, line {line}: {why}{shown}")
        self.line = line
        self.instruction = instruction
        self.why = why


@dataclass(frozen=True)
class Instruction:
    line: int
    word: str
    """In capitals."""
    rest: str

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        if self.line == _PREBUILT_LINE:
            return "task.toml, environment.docker_image"
        return f"{PATH}, line {self.line} ({self.word} {self.rest[:120]})"

    def error(self, why: str) -> DockerfileError:
        return DockerfileError(self.line, f"{self.word} {self.rest}".strip(), f"{self.word} {why}")

    def needs_docker(self, why: str) -> DockerfileError:
        return DockerfileError(self.line, f"{self.word} {self.rest}".strip(), f"needs Docker: {self.word} {why}")


@dataclass(frozen=True)
class Copy:
    sources: tuple[str, ...]
    """Below environment/, as written."""
    target: str
    """Absolute, without a slash at its end."""
    into_folder: bool
    """Whether a file keeps its name and goes below the target."""
    instruction: Instruction


@dataclass(frozen=True)
class Folder:
    """What WORKDIR makes."""

    path: str
    instruction: Instruction


@dataclass(frozen=True)
class Run:
    command: tuple[str, ...]
    """The shell form is a call of /bin/sh already."""
    workdir: str
    """Absolute; / before the first WORKDIR."""
    env: tuple[tuple[str, str], ...]
    as_root: bool
    instruction: Instruction


Step = Copy | Folder | Run


@dataclass(frozen=True)
class Dockerfile:
    base: str = ""
    workdir: str = ""
    """Absolute; empty where the file names none."""
    env: tuple[tuple[str, str], ...] = ()
    """The last of a name counts."""
    as_root: bool = True
    """Whose RUN it is from here on; a box's own user in any case has one uid."""
    steps: tuple[Step, ...] = ()
    """In order: what changes files."""
    is_prebuilt: bool = False
    """Nobody wrote it: it stands for an image that the task names."""

    @property
    def copies(self) -> tuple[Copy, ...]:
        return tuple(step for step in self.steps if isinstance(step, Copy))

    def needs_build(self, workdir: str) -> bool:
        """Whether its files are more than copies into the working folder."""
        return self.is_prebuilt or any(
            isinstance(step, Run) or (isinstance(step, Copy) and _relative(step.target, workdir) is None)
            for step in self.steps
        )


def read_dockerfile(text: str) -> Dockerfile:
    """Raises DockerfileError."""
    found = Dockerfile()
    for instruction in _instructions(text):
        found = _obeyed(found, instruction)
    if not found.base:
        raise DockerfileError(1, "", "there is no FROM")
    return found


def prebuilt(image: str, workdir: str, names: Collection[str]) -> Dockerfile:
    """What a task means that names an image: the files of its environment/, by these names, in the working folder.

    A Dockerfile among them says how the image was made: then the image has them."""
    instruction = Instruction(_PREBUILT_LINE, "COPY", f". {workdir}")
    makes = bool(names) and posixpath.basename(PATH) not in names
    steps = (Copy((".",), workdir, into_folder=True, instruction=instruction),) if makes else ()
    return Dockerfile(image, workdir, steps=steps, is_prebuilt=True)


def placed(copies: Collection[Copy], workdir: str, names: Collection[str]) -> dict[str, str]:
    """What COPY puts into the working folder, from the names of the files below environment/; later copies win.

    Raises DockerfileError."""
    found: dict[str, str] = {}
    makers: dict[str, Copy] = {}
    for copy in copies:
        for path, name in landed(copy, names, lambda path: path == workdir).items():
            if inside := _relative(path, workdir):
                found[inside] = name
                makers[inside] = copy
    folders = {str(parent) for path in found for parent in PurePosixPath(path).parents}
    for path in sorted(folders & found.keys()):
        raise makers[path].instruction.error(f"makes {path}, which another COPY makes a folder")
    return found


def landed(copy: Copy, names: Collection[str], is_folder: Callable[[str], bool]) -> dict[str, str]:
    """By their absolute paths, the names that this COPY puts there; is_folder tells what stands there before.

    Raises DockerfileError."""
    found: dict[str, str] = {}
    for source in copy.sources:
        found |= _copied(copy, source, names, is_folder)
    return found


def _instructions(text: str) -> Iterator[Instruction]:
    """With continued lines joined; comments and empty lines left out, also between continued ones."""
    start, joined = 0, ""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        start = start or number
        if more := _CONTINUED.search(line):
            joined += line[: more.start()]
            continue
        yield _instruction(start, joined + line)
        start, joined = 0, ""
    if joined.strip():
        yield _instruction(start, joined)


def _instruction(line: int, text: str) -> Instruction:
    word, *rest = text.split(maxsplit=1)
    return Instruction(line, word.upper(), rest[0].strip() if rest else "")


def _obeyed(found: Dockerfile, instruction: Instruction) -> Dockerfile:
    if instruction.word == "FROM":
        return replace(found, base=_only_base(found, instruction))
    if not found.base:
        raise instruction.needs_docker("comes before FROM")
    match instruction.word:
        case "WORKDIR":
            workdir = _absolute(found, _only_word(instruction))
            return replace(found, workdir=workdir, steps=(*found.steps, Folder(workdir, instruction)))
        case "ENV":
            return replace(found, env=found.env + _pairs(instruction))
        case "COPY":
            return replace(found, steps=(*found.steps, _copy(found, instruction)))
        case "RUN":
            return replace(found, steps=(*found.steps, _run(found, instruction)))
        case "USER" if _only_word(instruction) not in _ROOT + _BOX_USER:
            raise instruction.needs_docker("is not supported: a box has one user, 1000")
        case "USER":
            return replace(found, as_root=_only_word(instruction) in _ROOT)
        case "LABEL":
            return found
    raise instruction.needs_docker("is not supported")


def _only_base(found: Dockerfile, instruction: Instruction) -> str:
    words = _words(instruction)
    if found.base or len(words) != 1:
        raise instruction.needs_docker("with stages or a platform is not supported")
    return words[0]


def _only_word(instruction: Instruction) -> str:
    words = _words(instruction)
    if len(words) != 1 or not words[0]:
        raise instruction.needs_docker("must hold one plain value")
    return words[0]


def _words(instruction: Instruction) -> list[str]:
    if "$" in instruction.rest or "\0" in instruction.rest:
        raise instruction.needs_docker("must hold plain values, no variables")
    try:
        return shlex.split(instruction.rest)
    except ValueError as error:
        raise instruction.needs_docker(f"cannot be read ({error})") from error


def _pairs(instruction: Instruction) -> tuple[tuple[str, str], ...]:
    words = _words(instruction)
    if words and "=" not in words[0]:
        return (_old_pair(instruction),)
    pairs = [word.partition("=") for word in words]
    if not pairs or not all(name and sign for name, sign, _ in pairs):
        raise instruction.needs_docker("must hold NAME=value")
    return tuple((name, value) for name, _, value in pairs)


def _old_pair(instruction: Instruction) -> tuple[str, str]:
    """ENV NAME some words."""
    name, *value = instruction.rest.split(maxsplit=1)
    if not value or any(sign in instruction.rest for sign in "\"'\\"):
        raise instruction.needs_docker("must hold NAME=value")
    return name, value[0]


def _copy(found: Dockerfile, instruction: Instruction) -> Copy:
    if instruction.rest.startswith("--"):
        raise instruction.needs_docker("with options is not supported")
    words = _listed(instruction) if instruction.rest.startswith("[") else _words(instruction)
    if any(word.startswith("<<") or set(word) & set("*?[$") or not word.isprintable() for word in words):
        raise instruction.needs_docker("with patterns, variables or here-documents is not supported")
    if len(words) < 2:
        raise instruction.needs_docker("must name a source and a target")
    *sources, target = words
    absolute = _absolute(found, target)
    into = target.endswith("/") or target.split("/")[-1] in (".", "..") or absolute == _absolute(found, ".")
    if len(sources) > 1 and not into:
        raise instruction.needs_docker("of several files must end with a folder and a slash")
    return Copy(tuple(sources), absolute, into, instruction)


def _run(found: Dockerfile, instruction: Instruction) -> Run:
    text = instruction.rest
    if text.startswith("--"):
        raise instruction.needs_docker("with options is not supported")
    if not text or "\0" in text or _HERE_DOCUMENT.search(text):
        raise instruction.needs_docker("must hold a command, and no here-document")
    listed = _list_of_texts(text)  # as Docker has it: what is no list is a command line, such as [ -f a ]
    command = ("/bin/sh", "-c", text) if listed is None else tuple(listed)
    if not command or not command[0] or any("\0" in word or not _is_text(word) for word in command):
        raise instruction.needs_docker("must hold a command")
    return Run(command, found.workdir or "/", found.env, found.as_root, instruction)


def _is_text(word: str) -> bool:
    """A list in JSON may hold half a character."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _listed(instruction: Instruction) -> list[str]:
    words = _list_of_texts(instruction.rest)
    if words is None:
        raise instruction.needs_docker("is not a list of texts")
    return words


def _list_of_texts(text: str) -> list[str] | None:
    try:
        words = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return None
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def _absolute(found: Dockerfile, path: str) -> str:
    """One slash at the front: two would stay two."""
    return "/" + posixpath.normpath(posixpath.join("/", found.workdir, path)).lstrip("/")


def _copied(copy: Copy, source: str, names: Collection[str], is_folder: Callable[[str], bool]) -> dict[str, str]:
    """One source. Nothing leads out of environment/: Docker, too, stops there."""
    root = posixpath.normpath(f"/{source}").lstrip("/")
    if root in names:
        into = copy.into_folder or is_folder(copy.target)
        below = {posixpath.basename(root) if into else "": root}
    else:
        below = {name[len(root) :].lstrip("/"): name for name in names if not root or name.startswith(f"{root}/")}
    if not below:
        raise copy.instruction.error(f"names {source}, which is not in {FOLDER}/")
    found = {posixpath.join(copy.target, rest).rstrip("/"): name for rest, name in below.items()}
    if "" in found:
        raise copy.instruction.error("cannot put a file in place of /")
    return found


def _relative(path: str, workdir: str) -> str | None:
    """Below the working folder ('.' for itself), or None."""
    inside = posixpath.relpath(path, workdir)
    return None if inside.split("/")[0] == ".." else inside
