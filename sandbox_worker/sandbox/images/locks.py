"""Locks between the processes of one host: held by an open file, so that they end with whoever held them."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOK_AGAIN_SECONDS = 0.1


@contextmanager
def held(path: Path, *, shared: bool = False, check: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Waits its turn; check is asked meanwhile, and raises to give up."""
    fd = _open(path)
    try:
        while not _taken(fd, shared=shared):
            check()
            time.sleep(_LOOK_AGAIN_SECONDS)
        yield
    finally:
        os.close(fd)


def try_hold(path: Path, *, shared: bool = False) -> int | None:
    """A descriptor that holds the lock until it is closed; None where another holds it."""
    fd = _open(path)
    if _taken(fd, shared=shared):
        return fd
    os.close(fd)
    return None


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _taken(fd: int, *, shared: bool) -> bool:
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
