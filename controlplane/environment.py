"""Typed readers of environment variables. A bad value is an error that names its variable."""

import os
from pathlib import Path
from urllib.parse import urlparse


class EnvironmentVariableError(Exception):
    """An environment variable holds a value that cannot be used."""

    def __init__(self, name: str, value: str, wanted: str) -> None:
        super().__init__(f"The environment variable {name} is {value!r}; it must be {wanted}.")
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


def read_folder(name: str, default: Path) -> Path:
    """An absolute path without links, so that every program names one folder alike."""
    return Path(read_text(name, str(default))).expanduser().resolve()


def read_url(name: str, default: str, schemes: tuple[str, ...]) -> str:
    value = read_text(name, default)
    if urlparse(value).scheme not in schemes:
        raise EnvironmentVariableError(
            name, value, "an address that starts with " + " or ".join(f"{s}://" for s in schemes)
        )
    return value


def read_bind(name: str, default: str) -> tuple[str, int]:
    """host:port; an IPv6 host stands in brackets."""
    value = read_text(name, default)
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) < 65536:
        raise EnvironmentVariableError(name, value, "host:port, such as 127.0.0.1:8000")
    return host.strip("[]") or "0.0.0.0", int(port)


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
