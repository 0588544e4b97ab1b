"""What the end of one RUN means for its build."""

from sandbox_worker.sandbox.base import End, Limits
from sandbox_worker.sandbox.images.errors import (
    BuildDiskFullError,
    BuildError,
    BuildFailedError,
    BuildOutOfMemoryError,
    BuildTimedOutError,
)

_OTHER_LIMITS = {End.PID_LIMIT: "wanted more processes than a box has", End.OUTPUT_LIMIT: "printed without an end"}


def require_success(
    where: str, end: End, exit_code: int, log: str, *, limits: Limits, seconds: float, too_large: str = ""
) -> None:
    """too_large: why what it left is no layer; empty if it is one. Raises BuildError."""
    if end is End.TIMED_OUT:
        raise BuildTimedOutError(where, f"did not end within {seconds:.0f} s", log)
    if end is End.OUT_OF_MEMORY:
        raise BuildOutOfMemoryError(where, f"took more than {limits.memory_bytes} bytes of memory", log)
    if end is End.DISK_FULL:
        raise BuildDiskFullError(where, f"no space was left (a box has {limits.disk_bytes} bytes)", log)
    if too_large:
        raise BuildDiskFullError(where, f"{too_large} (a box has {limits.disk_bytes} bytes)", log)
    if end in _OTHER_LIMITS:
        raise BuildError(where, _OTHER_LIMITS[end], log)
    if end is not End.EXITED or exit_code != 0:
        raise BuildFailedError(where, exit_code, log)
