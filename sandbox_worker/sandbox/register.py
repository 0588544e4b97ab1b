"""Whose box is whose: one file for each worker of this host, with a lease, for who looks at the host from outside.

It only tells. What is dead is known by its owner; a disk that takes no more files keeps no box from its work.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sandbox_worker.sandbox.base import Box, BoxSpec
from sandbox_worker.sandbox.layout import LEASE_SECONDS
from sandbox_worker.sandbox.meeting import is_own
from sandbox_worker.sandbox.owner import Owner

log = logging.getLogger(__name__)

_TOGETHER_SECONDS = 0.2
"""What changes so shortly after another change is written with it."""
_SUFFIX, _NEW = ".json", ".new"


@dataclass(frozen=True)
class Entry:
    """One box."""

    name: str
    """Of its control group, or of its container."""
    kind: str
    """In words."""
    label: str
    """'<run>.<rollout>.<attempt>'; empty while it waits."""
    started: float
    """Unix seconds."""


@dataclass(frozen=True)
class Record:
    """Of one worker."""

    owner: Owner
    renewed: float
    """Unix seconds."""
    boxes: tuple[Entry, ...]


class Register:
    """This process's. Its file appears with its first box."""

    def __init__(self, folder: Path | None, *, seconds: float = LEASE_SECONDS / 4) -> None:
        """folder: of the records of all; None: none is kept. seconds: between two renewals of the lease."""
        self._path = folder / f"{Owner.this_process().name}{_SUFFIX}" if folder else None
        self._seconds = seconds
        self._lock = threading.Lock()
        self._boxes: dict[Box, Entry] = {}
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._is_writable = True
        self._thread = threading.Thread(target=self._live, name="box-register", daemon=True)
        if self._path:
            self._thread.start()

    def enter(self, box: Box, kind: BoxSpec) -> None:
        with self._lock:
            self._boxes[box] = Entry(box.name, words(kind), "", time.time())
        self._changed.set()

    def give(self, box: Box, label: str) -> None:
        with self._lock:
            self._boxes[box] = replace(self._boxes[box], label=label)
        self._changed.set()

    def strike(self, box: Box) -> None:
        with self._lock:
            self._boxes.pop(box, None)
        self._changed.set()

    def clear(self) -> None:
        """Records of dead workers."""
        if self._path:
            for path in dead_records(self._path.parent):
                remove(path)

    def close(self) -> None:
        self._closed.set()
        self._changed.set()
        if self._path:
            self._thread.join()
            remove(self._path)

    def _live(self) -> None:
        while not self._closed.is_set():
            self._changed.wait(self._seconds if self._boxes else None)
            self._changed.clear()
            self._write()
            self._closed.wait(_TOGETHER_SECONDS)

    def _write(self) -> None:
        with self._lock:
            boxes = [asdict(entry) for entry in self._boxes.values()]
        if self._path is None or self._closed.is_set():
            return
        new = self._path.with_suffix(_NEW)
        try:
            new.write_text(json.dumps({"renewed": time.time(), "boxes": boxes}))
            os.replace(new, self._path)
        except OSError as error:
            if self._is_writable:
                log.warning("the boxes of this worker are not recorded in %s: %s", self._path, error)
            self._is_writable = False
        else:
            self._is_writable = True


def records(folder: Path) -> Iterator[Record]:
    """Of all workers. One that is half gone or no record is passed over."""
    for path in paths(folder):
        owner = Owner.parse(path.stem)
        try:
            found = json.loads(path.read_text())
            renewed, boxes = float(found["renewed"]), tuple(Entry(**entry) for entry in found["boxes"])
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if owner:
            yield Record(owner, renewed, boxes)


def dead_records(folder: Path) -> list[Path]:
    """Files of workers that are certainly dead."""
    owners = ((path, Owner.parse(path.stem)) for path in paths(folder))
    return [path for path, owner in owners if owner and owner.is_dead()]


def paths(folder: Path) -> list[Path]:
    if not is_own(folder):
        return []
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in (_SUFFIX, _NEW))
    except OSError:
        return []


def remove(path: Path) -> None:
    for one in (path, path.with_suffix(_NEW)):
        with suppress(OSError):  # another was faster, or the folder is gone
            one.unlink()


def words(kind: BoxSpec) -> str:
    """Of a kind of box, for the pages."""
    limits = kind.limits
    image = f", image {kind.image.removeprefix('sha256:')[:12]}" if kind.image else ""
    return f"{kind.workdir}, {limits.cpus:g} cpu, {limits.memory_bytes / 2**20:g} MiB, {limits.pids} pids{image}"
