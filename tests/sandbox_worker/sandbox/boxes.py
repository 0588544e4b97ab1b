"""Boxes for the tests, and what to run in them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sandbox_worker.sandbox.base import Backend, Box, BoxSpec, Completed, Limits

MEGABYTE = 2**20
MARK = f"assay-test-{os.getpid()}"
"""In the environment of every command of these boxes."""


@contextmanager
def open_box(backend: Backend, workdir: str = "/app", **limits: float) -> Iterator[Box]:
    spec = BoxSpec(limits=Limits(**limits), workdir=workdir, env=(("MARK", MARK),), label="1.2.3")  # type: ignore[arg-type]
    box = backend.start(spec)
    try:
        yield box
    finally:
        box.stop()


def shell(box: Box, script: str, timeout: float = 20.0, stdin: bytes = b"") -> Completed:
    return box.run(["bash", "-c", script], timeout=timeout, stdin=stdin)


def python(box: Box, script: str, timeout: float = 30.0) -> Completed:
    return box.run(["python3", "-c", script], timeout=timeout)


def said(done: Completed) -> str:
    return done.output.decode().strip()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def groups_of(pid: int) -> list[Path]:
    """Control groups of the boxes of a worker."""
    while True:
        with suppress(FileNotFoundError):  # another's vanished while we looked
            return [found for found in Path("/sys/fs/cgroup").glob(f"**/assay/{pid}-*/*") if found.is_dir()]


def supervisor() -> int:
    """PID 1 of the only box of this process, as the host sees it: the younger in its group while no command runs."""
    (pids,) = {(group / "cgroup.procs").read_text() for group in groups_of(os.getpid())}
    return max(int(pid) for pid in pids.split())


def processes_with(text: str) -> list[int]:
    """Processes on the host with this in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text.encode() in line:
            found.append(int(entry.parent.name))
    return found
