"""A process that must not outlive its parent says so here, to the kernel."""

import ctypes
import os
import signal
from collections.abc import Callable

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def die_with_parent(signum: int = signal.SIGTERM) -> None:
    """Ask for a signal when the thread that started this process ends. Call it in the child, after any change of uid.

    The kernel watches the *thread*: start such children from a thread that lives as long as the parent.
    """
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def child_setup(signum: int = signal.SIGTERM) -> Callable[[], None]:
    """A preexec_fn: die with this process, also if it died before the child could ask."""
    parent = os.getpid()

    def setup() -> None:
        die_with_parent(signum)
        if os.getppid() != parent:
            os._exit(1)

    return setup
