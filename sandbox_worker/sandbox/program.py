"""The supervisor's program: built from its source at install, static, the same for every box of this machine.

`python -m sandbox_worker.sandbox.program` builds it where it is not built yet. The compiler is a pinned wheel, so that
no compiler need be installed, and the program is the same everywhere.
"""

import hashlib
import logging
import os
import platform
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from sandbox_worker.sandbox.base import HostCannotIsolateError

log = logging.getLogger(__name__)

SOURCE = Path(__file__).parent / "supervisor"
BUILT = Path(__file__).parent / "built"
COMPILER = "ziglang"
TARGETS = {"x86_64": "x86_64-linux-musl", "aarch64": "aarch64-linux-musl"}
FLAGS = ("-std=gnu11", "-Os", "-s", "-static", "-Wall", "-Wextra", "-Werror", "-fstack-protector-strong")
_ELF = b"\x7fELF"
_MEND = f"Install the Python package {COMPILER} of requirements.txt (make install), then start again."


def supervisor_program() -> bytes:
    """Raises HostCannotIsolateError where it is neither built nor can be."""
    path = program_path()
    try:
        known = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        known = b""
    if known.startswith(_ELF):  # a file that was cut short by a power loss is built again
        return known
    program = compiled()
    try:
        keep(path, program)
    except OSError as error:  # an installation that this user may not write: built at each start, then
        log.warning("the supervisor is not kept at %s: %s", path, error)
    return program


def program_path() -> Path:
    """Named after what it is made of."""
    parts = [flag.encode() for flag in FLAGS]
    parts += [part for path in sources() for part in (path.name.encode(), path.read_bytes())]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()
    return BUILT / f"supervisor-{platform.machine()}-{digest[:16]}"


def sources() -> list[Path]:
    return sorted(path for path in SOURCE.iterdir() if path.suffix in (".c", ".h"))


def compiled() -> bytes:
    """Raises HostCannotIsolateError with what the compiler said."""
    target = TARGETS.get(platform.machine())
    if target is None:
        raise HostCannotIsolateError(f"there is no supervisor for {platform.machine()}", "Use another host.")
    with TemporaryDirectory(prefix="assay-supervisor-") as place:
        out = Path(place) / "supervisor"
        files = [str(path) for path in sources() if path.suffix == ".c"]
        command = [sys.executable, "-m", COMPILER, "cc", "-target", target, *FLAGS, "-o", str(out), *files]
        caches = {"ZIG_GLOBAL_CACHE_DIR": f"{place}/all", "ZIG_LOCAL_CACHE_DIR": f"{place}/own"}
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **caches}, check=False)
        if done.returncode != 0:
            raise HostCannotIsolateError(f"the supervisor cannot be built:\n{done.stderr[-4000:]}", _MEND)
        return out.read_bytes()


def keep(path: Path, program: bytes) -> None:
    """In place of what earlier sources gave: who runs that has it in memory."""
    path.parent.mkdir(exist_ok=True)
    for older in path.parent.glob(f"supervisor-{platform.machine()}-*"):
        older.unlink(missing_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with beside.open("wb") as file:
        file.write(program)
        file.flush()
        os.fsync(file.fileno())
    beside.chmod(0o755)
    beside.replace(path)


if __name__ == "__main__":
    supervisor_program()
    sys.stdout.write(f"The supervisor of the boxes is {program_path()}\n")
