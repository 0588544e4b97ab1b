"""Typed readers of environment variables. A bad value is an error that names its variable."""

import os
import re
from pathlib import Path
from urllib.parse import urlparse

import psycopg
from psycopg.conninfo import conninfo_to_dict

MOST_PORT = 65535
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^@]*@")


class EnvironmentVariableError(Exception):
    """An environment variable holds a value that cannot be used."""

    def __init__(self, name: str, value: str, wanted: str) -> None:
        shown = PASSWORD.sub(r"\1:***@", value)  # what is printed is often kept
        super().__init__(f"The environment variable {name} is {shown!r}; it must be {wanted}.")
        self.name = name


def read_text(name: str, default: str) -> str:
    """An empty variable counts as unset, as in a compose file."""
    return os.environ.get(name) or default


def read_flag(name: str, default: bool) -> bool:
    value = os.environ.get(name, "").lower()
    if value == "":
        return default
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    raise EnvironmentVariableError(name, value, "1 or 0")


def read_number(name: str, default: int, *, least: int = 0) -> int:
    value = os.environ.get(name, "")
    if value == "":
        return default
    try:
        number = int(value)
    except ValueError as error:
        raise EnvironmentVariableError(name, value, "a whole number") from error
    if number < least:
        raise EnvironmentVariableError(name, value, f"a whole number from {least}")
    return number


def read_list(name: str, default: tuple[str, ...]) -> list[str]:
    value = os.environ.get(name, "")
    return [item.strip() for item in value.split(",") if item.strip()] if value else list(default)


def read_log_level(name: str, default: str) -> str:
    value = read_text(name, default)
    if value.upper() not in LOG_LEVELS:
        raise EnvironmentVariableError(name, value, f"one of {', '.join(LOG_LEVELS)}")
    return value.upper()


def read_folder(name: str, default: Path) -> Path:
    """An absolute path without links, so that every program names one folder alike. It need not be there yet."""
    value = read_text(name, str(default))
    try:
        folder = Path(value).expanduser().resolve()
    except (OSError, RuntimeError) as error:  # no such home, or links in a ring
        raise EnvironmentVariableError(name, value, f"the path of a folder ({error})") from error
    for above in (folder, *folder.parents):
        if os.path.lexists(above) and not os.path.isdir(above):
            raise EnvironmentVariableError(name, value, f"the path of a folder; {above} is none")
    return folder


def read_http_url(name: str, default: str) -> str:
    value = read_text(name, default)
    try:
        parsed = urlparse(value)
        usable = parsed.scheme in ("http", "https") and bool(parsed.hostname) and parsed.port != 0
    except ValueError:  # brackets that do not close, or a port that is none
        usable = False
    if not usable:
        wanted = f"an address such as http://127.0.0.1:8100, the port from 1 to {MOST_PORT}"
        raise EnvironmentVariableError(name, value, wanted)
    return value


def read_postgres_url(name: str, default: str) -> str:
    """As libpq reads it: several hosts and their ports may stand in it, with commas between."""
    value = read_text(name, default)
    try:
        found = conninfo_to_dict(value) if urlparse(value).scheme in ("postgresql", "postgres") else None
    except (ValueError, psycopg.ProgrammingError):
        found = None
    if found is None or not all(port == "" or _is_port(port) for port in str(found.get("port", "")).split(",")):
        wanted = f"an address such as postgresql://user:password@host:5432/database, the port from 1 to {MOST_PORT}"
        raise EnvironmentVariableError(name, value, f"{wanted}; in a password, write %40 for @ and %2F for /")
    return value


def read_bind(name: str, default: str) -> tuple[str, int]:
    """host:port; an IPv6 host stands in brackets."""
    value = read_text(name, default)
    host, colon, port = value.rpartition(":")
    if not colon or not _is_port(port):
        raise EnvironmentVariableError(
            name, value, f"host:port, such as 127.0.0.1:8000, the port from 1 to {MOST_PORT}"
        )
    return host.strip("[]") or "0.0.0.0", int(port)


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= len(str(MOST_PORT)) and 0 < int(text) <= MOST_PORT


def read_together(defaults: dict[str, str]) -> list[str]:
    """Variables that are set all or none: a half of them would quietly point at the embedded server."""
    values = [read_text(name, "") for name in defaults]
    if not any(values):
        return list(defaults.values())
    for name, value in zip(defaults, values, strict=True):
        if not value:
            others = " and ".join(other for other in defaults if other != name)
            raise EnvironmentVariableError(name, value, f"set, because {others} is")
    return values
