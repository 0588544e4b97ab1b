"""The one place that decides which kind of box this host gets."""

from sandbox_worker.sandbox.base import Backend
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.preflight import find_host, prove


def open_backend(allow_weaker: bool) -> Backend:
    """A back end that was seen to isolate. Close it in the process that opened it.

    Raises HostCannotIsolateError.
    """
    backend = BubblewrapBackend(find_host(allow_weaker=allow_weaker))
    try:
        prove(backend)
    except BaseException:
        backend.close()
        raise
    return backend
