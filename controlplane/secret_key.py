"""The key that signs sessions and tokens: made once, kept in ASSAY_DATA, readable by its owner only."""

import os
import secrets
from pathlib import Path

from controlplane.environment import EnvironmentVariableError


def load_secret_key(data: Path) -> str:
    """Raises EnvironmentVariableError where ASSAY_DATA can hold none."""
    path = data / "secret-key"
    try:
        return path.read_text() if path.exists() else _make(path)
    except OSError as error:
        wanted = f"a folder in which this user can read and write; of {path} the system says: {error.strerror}"
        raise EnvironmentVariableError("ASSAY_DATA", str(data), wanted) from error


def _make(path: Path) -> str:
    """Several programs may start at once: the first to put its file in place wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(50))
    try:
        os.link(beside, path)
    except FileExistsError:
        return path.read_text()
    finally:
        beside.unlink()
    return path.read_text()
