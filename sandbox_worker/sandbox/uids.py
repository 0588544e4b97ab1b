"""One uid for each box of a worker that runs as root, with no lock between workers.

Every process owns the block of uids that its pid selects. Two live workers share a block where their pids are a million
apart, or 156 where a container maps few uids; their boxes are still apart by namespaces and groups of their own.
"""

import os
import threading
from pathlib import Path

from sandbox_worker.sandbox.base import NoRoomError

BLOCK = 256
"""Boxes that one worker can hold at once."""
_WIDE = range(0x70000000, 0x80000000)
"""Used by nothing else, as systemd's table of uids says."""
_NARROW = range(20_000, 60_000)
"""Where a container maps 65,536 uids only."""


class UidPool:
    def __init__(self, pid: int | None = None) -> None:
        block = block_of(os.getpid() if pid is None else pid, available())
        self._free = list(block)
        self._lock = threading.Lock()

    def take(self) -> int:
        with self._lock:
            if not self._free:
                raise NoRoomError(f"This worker holds {BLOCK} boxes already.")
            return self._free.pop(0)

    def give_back(self, uid: int) -> None:
        """Only when no process of it is left."""
        with self._lock:
            self._free.append(uid)


def block_of(pid: int, room: range) -> range:
    first = room.start + pid % (len(room) // BLOCK) * BLOCK
    return range(first, first + BLOCK)


def available() -> range:
    return _WIDE if is_mapped(_WIDE, Path("/proc/self/uid_map").read_text()) else _NARROW


def is_mapped(wanted: range, uid_map: str) -> bool:
    """Whether one line of /proc/<pid>/uid_map has all of them."""
    lines = [[int(part) for part in line.split()] for line in uid_map.splitlines()]
    return any(inside <= wanted.start and wanted.stop <= inside + length for inside, _, length in lines)


def image_uid() -> int:
    """Whose files the layers of images are, and who builds on them: beside those of the boxes."""
    return available().start - 1
