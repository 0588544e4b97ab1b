"""What a worker needs of a task: the instruction, the agent's files, the tests for later, the reference solution."""

import re
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sandbox_worker.sandbox.images.recipe import Recipe, RecipeFile
from sandbox_worker.task_archive import TaskArchiveError, TaskFile, check_digest, pack, read_archive
from wire.dockerfile import (
    FOLDER,
    IMAGE_NAME,
    MOST_BUILD_SECONDS,
    NEEDING_DOCKER,
    PATH,
    Dockerfile,
    DockerfileError,
    placed,
    prebuilt,
    read_dockerfile,
)
from wire.store import Store

_CACHE_BYTES = 128 * 2**20
_BUILD_SECONDS = 600.0
_CANARY = re.compile(r"\A(?:\s*(?:<!--.*?canary.*?-->|#.*canary.*)[ \t]*(?:\n|\Z))+\s*", re.IGNORECASE)
_HOST_VARIABLE = re.compile(r"\$\{(\w+)(?::-(?P<default>[^}]*))?\}")
_ROUND = re.compile(r"solution/rounds/[^/]+\.sh")


@dataclass(frozen=True)
class TaskContent:
    instruction: str
    workdir: str
    env: tuple[tuple[str, str], ...]
    """For the agent's box and the fresh box."""
    verifier_env: tuple[tuple[str, str], ...]
    solution_env: tuple[tuple[str, str], ...]
    """For the box in which the reference solution acts, and no other."""
    environment: bytes
    """The agent's files, a tar for the working folder."""
    recipe: Recipe
    """Of the image, where the environment is one that must be built."""
    needs_build: bool
    tests: tuple[TaskFile, ...]
    """With paths below tests/; delivered after the agent is dead."""
    solution: tuple[str, ...]
    """Scripts, one a round; empty without a reference solution."""
    size: int
    image: str = ""
    """The digest of what was built; empty while nothing was."""


class Tasks:
    """Task contents by their key in the store; a bounded number of bytes is kept."""

    def __init__(self, store: Store, *, cache_bytes: int = _CACHE_BYTES) -> None:
        self._store = store
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], TaskContent] = OrderedDict()

    def get(self, key: str, digest: str) -> TaskContent:
        """Raises TaskArchiveError, StoreError."""
        if (content := self._known(key, digest)) is not None:
            return content
        with self._reading:  # one at a time: a group's tries want the same task, and an archive may be large
            if (content := self._known(key, digest)) is not None:
                return content
            files = read_archive(self._store.get(key))
            check_digest(files, digest)
            content = read_task(files)
            self._keep(key, digest, content)
        return content

    def _known(self, key: str, digest: str) -> TaskContent | None:
        with self._lock:
            if (content := self._kept.get((key, digest))) is not None:
                self._kept.move_to_end((key, digest))
            return content

    def _keep(self, key: str, digest: str, content: TaskContent) -> None:
        with self._lock:
            self._kept[key, digest] = content
            while len(self._kept) > 1 and sum(kept.size for kept in self._kept.values()) > self._cache_bytes:
                self._kept.popitem(last=False)


def read_task(files: Mapping[str, TaskFile]) -> TaskContent:
    """Raises TaskArchiveError."""
    settings = _settings(files)
    below = {path.removeprefix(f"{FOLDER}/"): file for path, file in files.items() if path.startswith(f"{FOLDER}/")}
    dockerfile = _dockerfile(settings, files, below)
    workdir = _workdir(settings, dockerfile)
    if "tests/test.sh" not in files:
        raise TaskArchiveError("the task has no tests/test.sh")
    return TaskContent(
        instruction=_instruction(files),
        workdir=workdir,
        env=tuple((dict(dockerfile.env) | _resolved(settings, "environment")).items()),
        verifier_env=tuple(_resolved(settings, "verifier").items()),
        solution_env=tuple(_resolved(settings, "solution").items()),
        environment=pack(_agent_files(below, dockerfile, workdir)),
        recipe=_recipe(settings, dockerfile, below, workdir),
        needs_build=dockerfile.needs_build(workdir),
        tests=tuple(file for path, file in files.items() if path.startswith("tests/")),
        solution=_solution(files),
        size=sum(len(file.data) for file in files.values()),
    )


def _text(files: Mapping[str, TaskFile], path: str) -> str:
    try:
        return files[path].data.decode("utf-8")
    except KeyError:
        raise TaskArchiveError(f"the task has no {path}") from None
    except UnicodeDecodeError as error:
        raise TaskArchiveError(f"{path}: not UTF-8: {error}") from error


def _instruction(files: Mapping[str, TaskFile]) -> str:
    text = _CANARY.sub("", _text(files, "instruction.md")).strip()
    if not text:
        raise TaskArchiveError("instruction.md is empty")
    return text


def _settings(files: Mapping[str, TaskFile]) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(files, "task.toml"))
    except (ValueError, RecursionError) as error:  # too long a number, too deep a nesting: not only bad TOML
        raise TaskArchiveError(f"task.toml: {error}") from error


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = settings.get(name, {})
    if not isinstance(table, Mapping):
        raise TaskArchiveError(f"task.toml: {name} is no table")
    return table


def _resolved(settings: Mapping[str, Any], name: str) -> dict[str, str]:
    """The table's env. Values of the host are never given to a box; a default in the template is."""
    found = {}
    for key, value in _table(_table(settings, name), "env").items():
        for variable in _HOST_VARIABLE.finditer(str(value)):
            if variable["default"] is None:
                raise TaskArchiveError(f"task.toml: {name}.env.{key} wants ${{{variable[1]}}} of the host")
        found[key] = _HOST_VARIABLE.sub(lambda variable: variable["default"], str(value))
    return found


def _dockerfile(
    settings: Mapping[str, Any], files: Mapping[str, TaskFile], below: Mapping[str, TaskFile]
) -> Dockerfile:
    """below: the files of environment/."""
    for name in NEEDING_DOCKER:
        if name in below:
            raise TaskArchiveError(f"needs Docker: {FOLDER}/{name}")
    environment = _table(settings, "environment")
    if (image := environment.get("docker_image")) is not None:
        if not isinstance(image, str) or not IMAGE_NAME.fullmatch(image):
            raise TaskArchiveError(f"task.toml: environment.docker_image is {image!r:.200}, and no name of an image")
        if not (workdir := environment.get("workdir")):
            raise TaskArchiveError("task.toml: environment.workdir is missing: with docker_image it must be said")
        return prebuilt(image, str(workdir), below)
    try:
        return read_dockerfile(_text(files, PATH))
    except DockerfileError as error:
        raise TaskArchiveError(str(error)) from error


def _workdir(settings: Mapping[str, Any], dockerfile: Dockerfile) -> str:
    workdir = str(_table(settings, "environment").get("workdir") or dockerfile.workdir)
    if not workdir.startswith("/") or workdir == "/":
        raise TaskArchiveError(f"the working folder {workdir!r} is not a folder below /")
    return workdir


def _recipe(settings: Mapping[str, Any], dockerfile: Dockerfile, below: Mapping[str, TaskFile], workdir: str) -> Recipe:
    seconds = _table(settings, "environment").get("build_timeout_sec", _BUILD_SECONDS)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= MOST_BUILD_SECONDS:
        raise TaskArchiveError(
            f"task.toml: environment.build_timeout_sec is {seconds!r}, and must be above 0 and at most"
            f" {MOST_BUILD_SECONDS:g} seconds"
        )
    files = {name: RecipeFile(file.data, file.executable) for name, file in below.items()}
    return Recipe(dockerfile, files, workdir, float(seconds))


def _agent_files(below: Mapping[str, TaskFile], dockerfile: Dockerfile, workdir: str) -> list[TaskFile]:
    """The agent's files relative to the working folder."""
    try:
        found = placed(dockerfile.copies, workdir, below)
    except DockerfileError as error:
        raise TaskArchiveError(str(error)) from error
    return [replace(below[name], path=path) for path, name in found.items()]


def _solution(files: Mapping[str, TaskFile]) -> tuple[str, ...]:
    rounds = sorted(path for path in files if _ROUND.fullmatch(path))
    for number, path in enumerate(rounds, start=1):
        if path != (expected := f"solution/rounds/{number:02}.sh"):
            raise TaskArchiveError(f"{path}: rounds are 01.sh, 02.sh and so on; this should be {expected}")
    if rounds:
        return tuple(_text(files, path) for path in rounds)
    return (_text(files, "solution/solve.sh"),) if "solution/solve.sh" in files else ()
