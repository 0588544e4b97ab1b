"""A lock that the kernel drops when its holder dies, and that names its holder to whoever is refused."""

import fcntl
import os
from pathlib import Path


class LockedError(Exception):
    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is held by process {holder}")
        self.path = path
        self.holder = holder
        """The process id, as text; empty if it was just being written."""


class FileLock:
    """Not inherited by programs that the holder starts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def take(self) -> None:
        """Raises LockedError. Safe to call again while held."""
        if self._handle is not None:
            return
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode()
            os.close(handle)
            raise LockedError(self.path, holder) from None
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        self._handle = handle

    def is_held(self) -> bool:
        return self._handle is not None

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
