"""Takes a copy of a descriptor out of another process."""

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_PIDFD_GETFD = 438
"""The same on every machine that boxes run on."""


def taken(pid: int, number: int) -> int:
    """Raises OSError: also where this process may not look into that one."""
    pidfd = os.pidfd_open(pid)
    try:
        found = int(_LIBC.syscall(_PIDFD_GETFD, pidfd, number, 0))
    finally:
        os.close(pidfd)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"the box's listening socket cannot be taken: {os.strerror(code)}")
    os.set_inheritable(found, False)
    return found
