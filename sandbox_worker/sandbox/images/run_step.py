"""A process that executes one RUN and ends: python -m sandbox_worker.sandbox.images.run_step, request in, answer out.

It writes into a file system of bounded size that nobody else sees and that ends with it; what it leaves is one tar.
"""

import logging
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from sandbox_worker.sandbox.base import BoxSpec, CommandRefusedError, Completed, End, Limits, SandboxError
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.image_root import ImageRoot, Writable, with_usr
from sandbox_worker.sandbox.images import host_base, namespace
from sandbox_worker.sandbox.images.pack import TooLargeError, pack_layer
from sandbox_worker.sandbox.preflight import find_host
from wire.orphan import die_with_parent

_FOLDERS_BYTES = 64 * 2**20
"""For a copy of the folders of the host's /usr."""
_ENDING_SECONDS = 60.0
"""What the box gets to end a command whose time is up."""


@dataclass(frozen=True)
class StepRequest:
    parent: int
    layers: tuple[str, ...]
    host_usr: bool
    scratch: str
    owner: int | None
    command: tuple[str, ...]
    workdir: str
    env: tuple[tuple[str, str], ...]
    as_root: bool
    limits: Limits
    seconds: float
    label: str
    allow_weaker: bool
    target: str
    """Where the layer's tar goes."""


@dataclass(frozen=True)
class StepAnswer:
    problem: str
    """Of our side; empty if the command was run."""
    end: End = End.EXITED
    exit_code: int = 0
    log: str = ""
    too_large: str = ""
    """Why what it left is no layer."""
    refused: str = ""
    """Why the command could not be started."""


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=StepRequest)
    die_with_parent()
    if os.getppid() != request.parent:
        sys.exit(1)
    try:
        answer = execute(request)
    except (SandboxError, OSError) as error:
        answer = StepAnswer(problem=f"{type(error).__name__}: {error}")
    sys.stdout.buffer.write(msgspec.json.encode(answer))


def execute(request: StepRequest) -> StepAnswer:
    """Raises SandboxError, OSError."""
    scratch = Path(request.scratch)
    namespace.enter()
    namespace.mount_room(scratch, _FOLDERS_BYTES)
    room = scratch / "room"
    room.mkdir()
    namespace.mount_room(room, request.limits.disk_bytes)
    try:
        completed = in_box(request, root_over(request, scratch, room))
    except CommandRefusedError as error:
        return StepAnswer("", refused=str(error))
    answer = StepAnswer("", completed.end, completed.exit_code, completed.output.decode("utf-8", "replace"))
    if completed.end is not End.EXITED or completed.exit_code != 0:
        return answer
    try:
        pack_layer(uppers(room), Path(request.target), request.limits.disk_bytes)
    except TooLargeError as error:
        return replace(answer, too_large=str(error))
    return answer


def root_over(request: StepRequest, scratch: Path, room: Path) -> ImageRoot:
    usr: tuple[str, ...] = ()
    places = [room, *(room / name for name in ("root", "root-work", "usr", "usr-work"))]
    for place in places[1:]:
        place.mkdir(mode=0o755)
    if request.host_usr:
        folders = scratch / "folders"
        host_base.copy_folders(folders)
        places += [Path(top) for top, _, _ in os.walk(folders)]
        below, *own = with_usr(request.layers)
        usr = (below, str(folders), *own)
    if request.owner is not None:
        for place in places[1:]:
            os.chown(place, request.owner, request.owner)
    root, root_work, usr_upper, usr_work = (str(place) for place in places[1:5])
    writable = Writable((root, root_work), (usr_upper, usr_work), request.owner, request.as_root)
    return ImageRoot(request.layers, usr, writable)


def in_box(request: StepRequest, root: ImageRoot) -> Completed:
    """Raises SandboxError."""
    limits = replace(request.limits, wall_seconds=request.seconds + _ENDING_SECONDS)
    spec = BoxSpec(limits, env=request.env, label=request.label, image="the one that is built")
    backend = BubblewrapBackend(find_host(allow_weaker=request.allow_weaker), lambda *_: root)
    with ExitStack() as closing:
        closing.callback(backend.close)
        box = backend.start(spec)
        return box.run(list(request.command), timeout=request.seconds, cwd=request.workdir)


def uppers(room: Path) -> list[tuple[Path, str]]:
    """Only what was written to."""
    return [(room / "root", ""), *([(room / "usr", "usr")] if any((room / "usr").iterdir()) else [])]


if __name__ == "__main__":
    main()
