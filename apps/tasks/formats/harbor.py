"""Reads a Harbor task folder into one frozen value."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from apps.tasks.formats.content import ContentFile, content_files, digest_of
from apps.tasks.formats.dockerfile import Copy, Dockerfile, needs_docker, parse_dockerfile
from apps.tasks.formats.errors import TaskFormatError
from apps.tasks.formats.task_toml import EnvironmentTable, megabytes, read_task_toml, with_defaults

CANARY = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
MAX_INSTRUCTION_BYTES = 256 * 1024
MAX_NAME, MAX_FAMILY = 160, 80
ROUNDS = "solution/rounds"
SYSTEM_FOLDERS = "bin boot dev etc lib lib64 logs proc root run sbin solution sys tests tmp usr var"
TAKEN = frozenset(SYSTEM_FOLDERS.split())
"""Top folders that a working folder may not be or lie in."""
COMPOSE = ("docker-compose.yaml", "docker-compose.yml", ".dockerignore")


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
    resources: Resources
    network: str
    """As the task asks: public or no-network. Boxes have none."""
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
    dockerfile = parse_dockerfile(text_of(folder, "environment/Dockerfile"))
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
        resources=resources_of(environment),
        network=network_of(environment),
        workdir=workdir,
        env=tuple((dict(dockerfile.env) | plain_env(environment.env)).items()),
        verifier_env=tuple(plain_env(settings.verifier.env).items()),
        dockerfile=dockerfile,
        workspace=tuple(workspace_of(files, dockerfile, workdir)),
        reference_rounds=reference_of(folder, files),
        unknown_keys=unknown,
        digest=digest_of(files),
        files=files,
    )


def require(files: tuple[ContentFile, ...]) -> None:
    paths = {file.path for file in files}
    if compose := [path for path in paths if path in {f"environment/{name}" for name in COMPOSE}]:
        raise TaskFormatError(compose[0], "", None, "needs Docker", "Keep to a Dockerfile without a build.")
    needed = {
        "task.toml": "Add it: it may be empty but for schema_version.",
        "instruction.md": "Add what the agent is to do.",
        "environment/Dockerfile": "Add one: FROM assay/base, WORKDIR /app, COPY files/ /app/.",
        "tests/test.sh": "Add the script that writes /logs/verifier/reward.txt.",
    }
    for path, way_out in needed.items():
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
    if not re.fullmatch(r"(/[\w.-]+)+", workdir, re.ASCII) or ".." in workdir or workdir.split("/")[1] in TAKEN:
        way_out = "Set [environment] workdir or WORKDIR to a folder like /app."
        raise TaskFormatError("task.toml", "environment.workdir", workdir, "is no working folder for a box", way_out)
    return workdir


def workspace_of(files: tuple[ContentFile, ...], dockerfile: Dockerfile, workdir: str) -> Iterator[WorkspaceFile]:
    """What COPY puts into the working folder; later copies win."""
    placed: dict[str, WorkspaceFile] = {}
    for copy in dockerfile.copies:
        for source in copy.sources:
            placed |= {file.path: file for file in copied(files, copy, source, workdir)}
    folders = {parent.as_posix() for path in placed for parent in PurePosixPath(path).parents}
    if clash := sorted(folders & placed.keys()):
        problem = "COPY makes it both a file and a folder"
        raise TaskFormatError("environment/Dockerfile", clash[0], None, problem, "Copy it to another place.")
    yield from (placed[path] for path in sorted(placed))


def copied(files: tuple[ContentFile, ...], copy: Copy, source: str, workdir: str) -> list[WorkspaceFile]:
    root = "/".join(["environment", *(part for part in source.split("/") if part not in ("", "."))])
    if not f"{copy.destination.rstrip('/')}/".startswith(f"{workdir}/"):
        needs_docker("COPY", f"{source} {copy.destination}", copy.line, f"leads out of the working folder {workdir}")
    target = copy.destination.removeprefix(workdir).strip("/")
    whole = [file for file in files if file.path.startswith(f"{root}/")]
    single = [file for file in files if file.path == root]
    if not whole and not single:
        problem = "COPY names a file or folder that is not in environment/"
        raise TaskFormatError(
            "environment/Dockerfile", f"line {copy.line}", source, problem, "Add it, or drop the line."
        )
    into = copy.destination.endswith("/") or not target
    names = [(file, file.path[len(root) + 1 :]) for file in whole] + [
        (file, root.rpartition("/")[2] if into else "") for file in single
    ]
    return [
        WorkspaceFile("/".join(part for part in (target, name) if part), file.path, file.executable)
        for file, name in names
    ]


def reference_of(folder: Path, files: tuple[ContentFile, ...]) -> tuple[str, ...]:
    rounds = [file.path for file in files if re.fullmatch(rf"{ROUNDS}/[^/]+\.sh", file.path)]
    for number, path in enumerate(rounds, start=1):
        if path != (expected := f"{ROUNDS}/{number:02}.sh"):
            problem = f"rounds are 01.sh, 02.sh and so on without a gap, and this should be {expected}"
            raise TaskFormatError(path, "", None, problem, "Rename it.")
    chosen = rounds or [file.path for file in files if file.path == "solution/solve.sh"]
    return tuple(text_of(folder, path) for path in chosen)
