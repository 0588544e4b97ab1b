"""What boxes could leave on the host: listed before a test and after it, of this session's worker and Engine alone."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from sandbox_worker.sandbox.cgroups import TOP, pids_in
from tests.engine import Engine
from tests.sandbox_worker.sandbox.boxes import MARK

_GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Leftovers:
    processes: frozenset[str]
    mounts: frozenset[str]
    groups: frozenset[str]
    containers: frozenset[str]
    interfaces: frozenset[str]
    folders: frozenset[str]

    @classmethod
    def now(cls, engine: Engine | None) -> "Leftovers":
        return cls(
            processes=frozenset(processes(engine)),
            mounts=frozenset(mounts(engine)),
            groups=frozenset(groups(engine)),
            containers=frozenset(engine.containers() if engine else ()),
            interfaces=frozenset(interfaces()),
            folders=frozenset(folders(engine)),
        )

    def since(self, before: "Leftovers") -> list[str]:
        """What there was not before, in words."""
        return [
            f"{kind.name}: {found}"
            for kind in fields(self)
            for found in sorted(getattr(self, kind.name) - getattr(before, kind.name))
        ]


def processes(engine: Engine | None) -> Iterator[str]:
    """Below this one, or below the Engine's; and whatever bears the mark of this session's boxes.

    The session's own servers start processes as they please."""
    of_engine = str(engine.folder).encode() if engine else MARK.encode()
    ours, parents, names = {os.getpid()}, {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words, pid = (entry / "cmdline").read_bytes(), int(entry.name)
            state, parent, *rest = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        program = words.partition(b"\0")[0]
        if program.endswith((b"dockerd", b"containerd")) or b"valkey" in program or b"postgres" in program:
            continue  # a server; the Engine may also have been started again by a test
        parents[pid] = int(parent)
        names[pid] = f"{pid} {state} started at {rest[17]}: {words[:80]!r}"
        if of_engine in words or MARK.encode() in environment(entry):
            ours.add(pid)
    return (names[pid] for pid in parents if pid in ours or ours.intersection(ancestors(pid, parents)))


def environment(process: Path) -> bytes:
    """Empty where it has ended, or may not be looked into: ours may."""
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


def ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid


def mounts(engine: Engine | None) -> Iterator[str]:
    """On this host; not those of another Engine of tests."""
    ours = str(engine.folder) if engine else MARK
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place = line.split()[4]
        if ours in place or "/assay-engine-" not in place:
            yield place


def groups(engine: Engine | None) -> Iterator[str]:
    """Of boxes; each folder, of which version 1 has one for every controller."""
    above = f"/{engine.cgroup_parent}/" if engine else f"/{TOP}/{os.getpid()}-"
    for folder, _, _ in os.walk(_GROUPS):  # which takes it well that others' groups come and go
        _, found, below = folder.partition(above)
        if found and (engine or "/" in below):
            yield folder


def supervisors(engine: Engine | None) -> set[int]:
    """The first process of each box that lives."""
    members = {pid for group in groups(engine) for pid in pids_in(Path(group))}
    return {pid for pid in members if is_first(pid)}


def is_first(pid: int) -> bool:
    """Of a namespace below this one."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(line.startswith("NSpid:") and line.endswith("\t1") for line in lines)


def interfaces() -> Iterator[str]:
    """Not those of a bridge: it is another Engine's, for ours has none."""
    for found in Path("/sys/class/net").iterdir():
        if not (found / "master").exists() and not (found / "bridge").exists():
            yield found.name


def folders(engine: Engine | None) -> Iterator[str]:
    yield from (str(found) for found in Path(tempfile.gettempdir()).glob(f"assay-*{os.getpid()}*"))
    if engine:
        of_containers = ("data/containers/*", "data/overlay2/*", "run/containerd/daemon/io.containerd.runtime*/moby/*")
        yield from (str(found) for pattern in of_containers for found in engine.folder.glob(pattern))
