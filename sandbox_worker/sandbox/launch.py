"""How a box is started: what it inherits, and the words that join its group, drop the uid and run bubblewrap."""

import fcntl
import marshal
import os
import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import BoxSpec, HostCannotIsolateError
from sandbox_worker.sandbox.binary import Bubblewrap
from sandbox_worker.sandbox.cgroups import Cgroup
from sandbox_worker.sandbox.starter import Launch

SETPRIV = "/usr/bin/setpriv"
_PACKAGE = "sandbox_worker.sandbox"
SUPERVISOR = tuple(
    f"{_PACKAGE}.{name}"
    for name in ("frames", "supervisor.wire", "supervisor.files", "supervisor.command", "supervisor.serve")
)
"""Modules of the supervisor, each after those that it imports; the last has main()."""
_COMPILE = """import marshal, sys
sources = marshal.load(sys.stdin.buffer)
sys.stdout.buffer.write(marshal.dumps([(name, compile(text, name, "exec")) for name, text in sources]))"""


def launch(
    bubblewrap: Bubblewrap,
    cgroup: Cgroup | None,
    uid: int | None,
    words: list[str],
    inherit: tuple[int, ...],
    errors: int,
) -> Launch:
    """The order matters: join the group while root, drop the uid, only then run bubblewrap."""
    command = [bubblewrap.path, *words]
    if uid is not None:
        command = [SETPRIV, "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--inh-caps=-all", *command]
    if cgroup:
        files = " ".join(shlex.quote(name) for name in cgroup.join_files())
        script = f'for file in {files}; do echo 0 > "$file" || exit 1; done; exec "$@"'
        command = ["/bin/sh", "-c", script, "sh", *command]
    return Launch(command, (*inherit, *bubblewrap.folders), errors, bubblewrap.env)


def hand_over(spec: BoxSpec, channel: int, code: int, seccomp: bytes, close: ExitStack) -> layout.Inherited:
    """Descriptors for one start; close closes them on this side."""
    etc = {path: memory(path, layout.etc_text(path, spec.workdir), close) for path in layout.ETC}
    return layout.Inherited(channel, code, memory("seccomp", seccomp, close), etc)


def memory(name: str, content: bytes, close: ExitStack) -> int:
    fd = os.memfd_create(name.replace("/", "_"), os.MFD_CLOEXEC)
    close.callback(os.close, fd)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def sealed_memory(name: str, content: bytes) -> int:
    """Shared by every box, so nobody may change it."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def compile_supervisor() -> bytes:
    """By the interpreter that will run it, once: compiling costs more than the rest of its start.

    Raises HostCannotIsolateError.
    """
    try:
        done = subprocess.run(
            [layout.PYTHON, "-I", "-S", "-c", _COMPILE],
            input=marshal.dumps([(name, source_of(name)) for name in SUPERVISOR], 2),
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostCannotIsolateError(
            f"{layout.PYTHON} does not run ({error})", "Install the system's Python 3 (Debian: apt install python3)."
        ) from error
    return done.stdout


def source_of(module: str) -> bytes:
    return (
        Path(__file__).parent.joinpath(*module.removeprefix(f"{_PACKAGE}.").split(".")).with_suffix(".py").read_bytes()
    )
