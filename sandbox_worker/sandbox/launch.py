"""How a box is started: what it inherits, and the words that join its group, drop the uid and run bubblewrap."""

import errno
import fcntl
import os
from contextlib import ExitStack

from sandbox_worker.sandbox import layout
from sandbox_worker.sandbox.base import BoxSpec, HostCannotIsolateError
from sandbox_worker.sandbox.binary import Bubblewrap
from sandbox_worker.sandbox.cgroups import Cgroup
from sandbox_worker.sandbox.starter import Launch

_MFD_EXEC = 0x10
"""Python does not know it yet."""


def launch(
    bubblewrap: Bubblewrap,
    cgroup: Cgroup | None,
    uid: int | None,
    words: list[str],
    inherited: layout.Inherited,
    errors: int,
) -> Launch:
    """The supervisor's program itself joins the group while root, drops the uid, and only then becomes bubblewrap."""
    files = cgroup.join_files() if cgroup else []
    drop = "-" if uid is None else str(uid)
    command = [inherited.program_path, "launch", drop, *files, "--", bubblewrap.path, *words]
    return Launch(command, (*inherited.all(), *bubblewrap.folders), errors, bubblewrap.env)


def hand_over(spec: BoxSpec, channel: int, program: int, seccomp: bytes, close: ExitStack) -> layout.Inherited:
    """Descriptors for one start; close closes them on this side."""
    etc = {path: memory(path, layout.etc_text(path, spec.workdir), close) for path in layout.ETC}
    return layout.Inherited(channel, program, memory("seccomp", seccomp, close), etc)


def memory(name: str, content: bytes, close: ExitStack) -> int:
    fd = os.memfd_create(name.replace("/", "_"), os.MFD_CLOEXEC)
    close.callback(os.close, fd)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def sealed_program(name: str, content: bytes) -> int:
    """Shared by every box, so nobody may change it; open, for a box's uid may not be able to read our folder."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        fd = os.memfd_create(name, flags | _MFD_EXEC)
    except PermissionError as error:
        mend = "sysctl vm.memfd_noexec=1, which lets a program ask for a file in memory that it may run."
        raise HostCannotIsolateError("no file in memory may be run here (vm.memfd_noexec=2)", mend) from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        fd = os.memfd_create(name, flags)  # a kernel before 6.3, where every one may be run
    os.write(fd, content)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd
