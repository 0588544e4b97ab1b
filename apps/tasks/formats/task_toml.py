"""task.toml as values: the keys of Harbor's schema 1.x, what of them we do not offer, and the ones we do not know."""

import inspect
import re
import tomllib
import typing
from typing import Any

import msgspec

from apps.tasks.formats.errors import TaskFormatError
from wire.dockerfile import IMAGE_NAME, MOST_BUILD_SECONDS

PATH = "task.toml"
NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
MAX_ROUNDS = 200

UNSUPPORTED = {
    "steps": "tasks of several steps",
    "artifacts": "artifacts outside the working folder",
    "agent.user": "an agent user of its own",
    "agent.allowed_hosts": "network allow-lists",
    "verifier.user": "a verifier user of its own",
    "verifier.allowed_hosts": "network allow-lists",
    "verifier.environment": "a separate verifier image",
    "verifier.collect": "collect commands",
    "environment.gpus": "GPUs in boxes",
    "environment.gpu_types": "GPUs in boxes",
    "environment.tpu": "TPUs in boxes",
    "environment.mcp_servers": "MCP servers",
    "environment.skills_dir": "skills",
    "environment.healthcheck": "health checks",
}
"""By key, what a task that sets it would need."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the file. Unknown keys are let through here and listed by unknown_keys."""


class TaskTable(Table, frozen=True, kw_only=True):
    name: str = ""
    version: str = ""
    description: str = ""
    authors: list[dict[str, Any]] = []
    keywords: list[str] = []


class AgentTable(Table, frozen=True, kw_only=True):
    timeout_sec: float | None = None
    user: str | int | None = None
    network_mode: str | None = None
    allowed_hosts: list[str] = []


class VerifierTable(Table, frozen=True, kw_only=True):
    timeout_sec: float = 600.0
    env: dict[str, str] = {}
    user: str | int | None = None
    network_mode: str | None = None
    allowed_hosts: list[str] = []
    environment_mode: typing.Literal["shared", "separate"] | None = None
    environment: dict[str, Any] | None = None
    collect: list[dict[str, Any]] = []


class SolutionTable(Table, frozen=True, kw_only=True):
    env: dict[str, str] = {}


class EnvironmentTable(Table, frozen=True, kw_only=True):
    build_timeout_sec: float = 600.0
    docker_image: str | None = None
    os: typing.Literal["linux", "windows"] = "linux"
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    memory: str | None = None
    storage: str | None = None
    gpus: int | None = None
    gpu_types: list[str] | None = None
    tpu: dict[str, Any] | None = None
    network_mode: typing.Literal["public", "no-network", "allowlist"] | None = None
    allowed_hosts: list[str] = []
    allow_internet: bool | None = None
    env: dict[str, str] = {}
    mcp_servers: list[dict[str, Any]] = []
    skills_dir: str | None = None
    healthcheck: dict[str, Any] | None = None
    workdir: str | None = None


class MetadataTable(Table, frozen=True, kw_only=True):
    """Free by the schema; these keys we read."""

    family: str = ""
    assay_rounds: int = 8
    difficulty: str = ""
    category: str = ""
    tags: list[str] = []


class TaskToml(Table, frozen=True, kw_only=True):
    schema_version: str = "1.3"
    version: str | None = None
    source: str | None = None
    artifacts: list[Any] = []
    multi_step_reward_strategy: str | None = None
    multi_step_reward_mode: str | None = None
    task: TaskTable = TaskTable()
    metadata: MetadataTable = MetadataTable()
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    solution: SolutionTable = SolutionTable()
    environment: EnvironmentTable = EnvironmentTable()
    steps: list[dict[str, Any]] = []


def read_task_toml(data: bytes) -> tuple[TaskToml, tuple[str, ...]]:
    """The settings, and the keys that nothing reads. Raises TaskFormatError."""
    try:
        raw = parsed(data)
        return supported(raw), tuple(sorted(unknown_keys(raw, TaskToml)))
    except (ValueError, OverflowError, RecursionError) as error:
        # Of Python itself, at whichever step first meets them: numbers of thousands of digits, tables within tables.
        problem = f"holds a number or a nesting out of all bounds: {error}"
        raise TaskFormatError(PATH, "", None, problem, "Write shorter numbers and flatter tables.") from error


def supported(raw: dict[str, Any]) -> TaskToml:
    settings = converted(raw)
    for key, need in UNSUPPORTED.items():
        if value := looked_up(raw, key):
            raise TaskFormatError(
                PATH, key, value, f"{need} are not supported", "Remove the key if the task can do without."
            )
    refuse_values(settings)
    return settings


def parsed(data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TaskFormatError(PATH, f"line {line}", None, "is not UTF-8", "Save the file as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        field = f"line {found[1]}" if found else "last line"
        raise TaskFormatError(PATH, field, None, f"is not TOML: {error}", "Mend the line.") from error


def converted(raw: dict[str, Any]) -> TaskToml:
    try:
        return msgspec.convert(raw, TaskToml)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$.")
        key = where.rstrip("`").replace("[...]", "")
        way_out = "Write a value of the expected type."
        raise TaskFormatError(PATH, key, looked_up(raw, key), problem, way_out) from error


def looked_up(raw: dict[str, Any], key: str) -> object:
    value: object = raw
    for part in re.findall(r"[^.\[\]]+", key):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def refuse_values(settings: TaskToml) -> None:
    """What is of the right type and still cannot be."""
    for key, value, fine, problem in (*value_checks(settings), *number_checks(settings), *env_checks(settings)):
        if not fine:
            raise TaskFormatError(PATH, key, value, problem, "Change the value, or remove the key.")


Verified = tuple[str, object, bool, str]
"""Key, value, whether it can be, what is wrong if not."""


_HOSTS_BY_LIST = "must name hosts where network_mode is allowlist, and none where it is not"


def value_checks(settings: TaskToml) -> list[Verified]:
    version, name, rounds = settings.schema_version, settings.task.name, settings.metadata.assay_rounds
    mode, system = settings.verifier.environment_mode, settings.environment.os
    network, hosts = settings.environment.network_mode, settings.environment.allowed_hosts
    seconds, image = settings.environment.build_timeout_sec, settings.environment.docker_image
    build_bound = f"must be above 0 and at most {MOST_BUILD_SECONDS:g}"
    return [
        ("schema_version", version, version.startswith("1."), "only schema 1.x is read"),
        ("task.name", name, valid_name(name), "must look like org/name"),
        ("metadata.assay_rounds", rounds, 1 <= rounds <= MAX_ROUNDS, f"must be from 1 to {MAX_ROUNDS}"),
        (
            "environment.docker_image",
            image,
            image is None or bool(IMAGE_NAME.fullmatch(image)),
            "is no name of an image",
        ),
        ("environment.build_timeout_sec", seconds, 0 < seconds <= MOST_BUILD_SECONDS, build_bound),
        ("environment.os", system, system == "linux", "only linux is supported"),
        ("environment.allowed_hosts", hosts, bool(hosts) == (network == "allowlist"), _HOSTS_BY_LIST),
        ("verifier.environment_mode", mode, mode != "separate", "a separate verifier image is not supported"),
    ]


def number_checks(settings: TaskToml) -> list[Verified]:
    numbers = {
        "agent.timeout_sec": settings.agent.timeout_sec,
        "verifier.timeout_sec": settings.verifier.timeout_sec,
        "environment.cpus": settings.environment.cpus,
        "environment.memory_mb": settings.environment.memory_mb,
        "environment.storage_mb": settings.environment.storage_mb,
    }
    return [(key, number, number is None or 0 < number < 1e9, "must be above 0") for key, number in numbers.items()]


def env_checks(settings: TaskToml) -> list[Verified]:
    """The schema lets values name variables of the host: those are never handed in, only their defaults."""
    tables = {
        "environment": settings.environment.env,
        "verifier": settings.verifier.env,
        "solution": settings.solution.env,
    }
    problem = "variables of the host are not handed in, and this one has no default"
    return [
        (f"{table}.env.{key}", value, "${" not in with_defaults(value), problem)
        for table, env in tables.items()
        for key, value in env.items()
    ]


def with_defaults(value: str) -> str:
    """'${NAME:-this}' becomes 'this'."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def valid_name(name: str) -> bool:
    return not name or (NAME.fullmatch(name) is not None and ".." not in name)


def unknown_keys(raw: dict[str, Any], table: type[Table], prefix: str = "") -> list[str]:
    """Keys that no field reads; the metadata table is free."""
    fields = {field.name: field.type for field in msgspec.structs.fields(table)}
    found = []
    for key, value in raw.items():
        if key not in fields:
            found.append(f"{prefix}{key}")
        elif isinstance(value, dict) and is_table(fields[key]) and fields[key] is not MetadataTable:
            found += unknown_keys(value, fields[key], f"{prefix}{key}.")
    return found


def is_table(kind: object) -> bool:
    return inspect.isclass(kind) and issubclass(kind, Table)


def megabytes(key: str, exact: int | None, legacy: str | None) -> int | None:
    """The number, or the older spelling with a unit ('4G')."""
    if exact is not None or legacy is None:
        return exact
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s*([MGT])i?B?", legacy.strip(), re.IGNORECASE)
    if not found:
        raise TaskFormatError(PATH, key, legacy, "is not a size", "Write a number and M, G or T.")
    return int(float(found[1]) * {"M": 1, "G": 1024, "T": 1024**2}[found[2].upper()])
