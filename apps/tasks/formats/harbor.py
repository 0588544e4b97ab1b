"""Reads a Harbor task folder into one frozen value."""

import posixpath
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from apps.tasks.formats.content import ContentFile, content_files, digest_of
from apps.tasks.formats.errors import TaskFormatError
from apps.tasks.formats.task_toml import EnvironmentTable, megabytes, read_task_toml, with_defaults
from wire.dockerfile import FOLDER, NEEDING_DOCKER, PATH, Dockerfile, DockerfileError, placed, prebuilt, read_dockerfile

CANARY = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
MAX_INSTRUCTION_BYTES = 256 * 1024
MAX_NAME, MAX_FAMILY = 160, 80
ROUNDS = "solution/rounds"
SYSTEM_FOLDERS = "bin boot dev etc lib lib32 lib64 libx32 logs proc root run sbin solution sys tests tmp usr var"
TAKEN = frozenset(SYSTEM_FOLDERS.split())
"""Top folders that a working folder may not be or lie in."""
SOURCES = re.compile(r"/usr/(local/)?src/.+")
"""But here: images that have a /usr of their own often keep a program's source there."""


@dataclass(frozen=True)
class Resources:
    """None where the task leaves it to us."""

    cpus: float | None
    memory_mb: int | None
    storage_mb: int | None


@dataclass(frozen=True)
class WorkspaceFile:
    """A file that stands in the working folder when the agent begins."""

    path: str
    """Relative to the working folder."""
    source: str
    """Relative to the task folder."""
    executable: bool


@dataclass(frozen=True)
class TaskFolder:
    name: str
    family: str
    instruction: str
    """As the agent reads it, without canary lines."""
    description: str
    difficulty: str
    keywords: tuple[str, ...]
    round_limit: int
    agent_timeout_sec: float | None
    verifier_timeout_sec: float
    build_timeout_sec: float
    resources: Resources
    network: str
    """As the task asks: public, no-network or allowlist. Without a list boxes have none."""
    allowed_hosts: tuple[str, ...]
    """That the agent's box may reach; the tests have no network."""
    workdir: str
    env: tuple[tuple[str, str], ...]
    """Of the Dockerfile and of [environment], the latter stronger."""
    verifier_env: tuple[tuple[str, str], ...]
    dockerfile: Dockerfile
    workspace: tuple[WorkspaceFile, ...]
    reference_rounds: tuple[str, ...]
    """One script a round; solve.sh alone is one round; empty without a solution."""
    unknown_keys: tuple[str, ...]
    digest: str
    files: tuple[ContentFile, ...]


def read_folder(folder: Path) -> TaskFolder:
    """Raises TaskFormatError."""
    files = content_files(folder)
    require(files)
    settings, unknown = read_task_toml((folder / "task.toml").read_bytes())
    dockerfile = dockerfile_of(folder, files, settings.environment)
    workdir = working_folder(settings.environment, dockerfile)
    name = checked("task.name", settings.task.name or folder.resolve().name, MAX_NAME)
    environment = settings.environment
    return TaskFolder(
        name=name,
        family=checked("metadata.family", settings.metadata.family or family_of(name), MAX_FAMILY),
        instruction=instruction_of(folder),
        description=settings.task.description,
        difficulty=settings.metadata.difficulty,
        keywords=tuple(dict.fromkeys((*settings.task.keywords, *settings.metadata.tags))),
        round_limit=settings.metadata.assay_rounds,
        agent_timeout_sec=settings.agent.timeout_sec,
        verifier_timeout_sec=settings.verifier.timeout_sec,
        build_timeout_sec=environment.build_timeout_sec,
        resources=resources_of(environment),
        network=network_of(environment),
        allowed_hosts=tuple(environment.allowed_hosts),
        workdir=workdir,
        env=tuple((dict(dockerfile.env) | plain_env(environment.env)).items()),
        verifier_env=tuple(plain_env(settings.verifier.env).items()),
        dockerfile=dockerfile,
        workspace=workspace_of(files, dockerfile, workdir),
        reference_rounds=reference_of(folder, files),
        unknown_keys=unknown,
        digest=digest_of(files),
        files=files,
    )


def require(files: tuple[ContentFile, ...]) -> None:
    paths = {file.path for file in files}
    for path in (f"{FOLDER}/{name}" for name in NEEDING_DOCKER):
        if path in paths:
            raise TaskFormatError(path, "", None, "needs Docker", "Keep to a Dockerfile without it.")
    needed = {
        "task.toml": "Add it: it may be empty but for schema_version.",
        "instruction.md": "Add what the agent is to do.",
        "tests/test.sh": "Add the script that writes /logs/verifier/reward.txt.",
    }
    for path, way_out in needed.items():
        require_one(paths, path, way_out)


def require_one(paths: Collection[str], path: str, way_out: str) -> None:
    if path not in paths:
        raise TaskFormatError(path, "", None, "is missing", way_out)


def text_of(folder: Path, path: str) -> str:
    data = (folder / path).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TaskFormatError(path, f"line {line}", None, "is not UTF-8", "Save the file as UTF-8.") from error


def instruction_of(folder: Path) -> str:
    text = without_canary(text_of(folder, "instruction.md")).strip()
    if not text:
        raise TaskFormatError("instruction.md", "", None, "is empty", "Write what the agent is to do.")
    if len(text.encode()) > MAX_INSTRUCTION_BYTES:
        raise TaskFormatError("instruction.md", "", None, f"is over {MAX_INSTRUCTION_BYTES} bytes", "Shorten it.")
    if "\0" in text:
        raise TaskFormatError("instruction.md", "", None, "holds a NUL character", "Remove it.")
    return text


def without_canary(text: str) -> str:
    """Without the leading marker lines of benchmarks and the blank lines after them."""
    lines = text.split("\n")
    while lines and CANARY.match(lines[0].strip()):
        lines.pop(0)
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)


def checked(field: str, value: str, limit: int) -> str:
    """A name that can be shown and kept."""
    if not value.strip() or len(value) > limit or not value.isprintable():
        problem = f"must have from 1 to {limit} printable characters"
        raise TaskFormatError("task.toml", field, ascii(value)[1:-1], problem, "Set another one.")
    return value


def family_of(name: str) -> str:
    """org/sort-lines-12 belongs to sort-lines."""
    return re.sub(r"-\d+$", "", name.rpartition("/")[2])


def resources_of(environment: EnvironmentTable) -> Resources:
    return Resources(
        cpus=environment.cpus,
        memory_mb=megabytes("environment.memory", environment.memory_mb, environment.memory),
        storage_mb=megabytes("environment.storage", environment.storage_mb, environment.storage),
    )


def plain_env(table: dict[str, str]) -> dict[str, str]:
    return {key: with_defaults(value) for key, value in table.items()}


def network_of(environment: EnvironmentTable) -> str:
    return environment.network_mode or ("no-network" if environment.allow_internet is False else "public")


def working_folder(environment: EnvironmentTable, dockerfile: Dockerfile) -> str:
    workdir = environment.workdir or dockerfile.workdir
    plain = re.fullmatch(r"(/[\w.-]+)+", workdir, re.ASCII) and workdir == posixpath.normpath(workdir)
    if not plain or (workdir.split("/")[1] in TAKEN and not SOURCES.fullmatch(workdir)):
        way_out = "Set [environment] workdir or WORKDIR to a folder like /app."
        raise TaskFormatError("task.toml", "environment.workdir", workdir, "is no working folder for a box", way_out)
    return workdir


def dockerfile_of(folder: Path, files: tuple[ContentFile, ...], environment: EnvironmentTable) -> Dockerfile:
    below = {path.removeprefix(f"{FOLDER}/") for file in files if (path := file.path).startswith(f"{FOLDER}/")}
    if environment.docker_image:
        if not environment.workdir:
            way_out = "Set it to the folder of the image in which the agent works, like /app."
            raise TaskFormatError("task.toml", "environment.workdir", None, "is missing beside docker_image", way_out)
        return prebuilt(environment.docker_image, environment.workdir, below)
    way_out = "Add one: FROM assay/base, WORKDIR /app, COPY files/ /app/; or name an image in environment.docker_image."
    require_one({file.path for file in files}, PATH, way_out)
    try:
        return read_dockerfile(text_of(folder, PATH))
    except DockerfileError as error:
        raise not_made(error) from error


def workspace_of(files: tuple[ContentFile, ...], dockerfile: Dockerfile, workdir: str) -> tuple[WorkspaceFile, ...]:
    """What COPY puts into the working folder."""
    below = {file.path.removeprefix(f"{FOLDER}/"): file for file in files if file.path.startswith(f"{FOLDER}/")}
    try:
        found = placed(dockerfile.copies, workdir, below)
    except DockerfileError as error:
        raise not_made(error) from error
    return tuple(WorkspaceFile(path, below[name].path, below[name].executable) for path, name in sorted(found.items()))


def not_made(error: DockerfileError) -> TaskFormatError:
    way_out = "Keep to FROM, WORKDIR, ENV, USER 1000 or root, COPY from environment/, and RUN without options."
    return TaskFormatError(PATH, f"line {error.line}", error.instruction or None, error.why, way_out)


def reference_of(folder: Path, files: tuple[ContentFile, ...]) -> tuple[str, ...]:
    rounds = [file.path for file in files if re.fullmatch(rf"{ROUNDS}/[^/]+\.sh", file.path)]
    for number, path in enumerate(rounds, start=1):
        if path != (expected := f"{ROUNDS}/{number:02}.sh"):
            problem = f"rounds are 01.sh, 02.sh and so on without a gap, and this should be {expected}"
            raise TaskFormatError(path, "", None, problem, "Rename it.")
    chosen = rounds or [file.path for file in files if file.path == "solution/solve.sh"]
    return tuple(text_of(folder, path) for path in chosen)
