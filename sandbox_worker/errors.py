"""What goes wrong in a sandbox worker, named by the boundary that it crossed.

A broken rollout is data: it ends as infra(boundary) with its evidence and never stops its siblings.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sandbox_worker.messages import Boundary


class SandboxWorkerError(Exception):
    """The root of this package's errors."""


class BoundaryError(SandboxWorkerError):
    """Something of ours broke; the agent did not do it."""

    def __init__(self, boundary: Boundary, evidence: str) -> None:
        super().__init__(f"{boundary}: {evidence}")
        self.boundary = boundary
        self.evidence = evidence


class EarlyEndError(SandboxWorkerError):
    """Ends an attempt although nothing broke; no boundary claims it."""


def describe(error: BaseException) -> str:
    """One line of evidence: the kind of error, its words, and where they were hidden, its cause."""
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    cause = error.__cause__
    return words if cause is None else f"{words} (from {type(cause).__name__}: {cause})"


@contextmanager
def boundary(name: Boundary) -> Iterator[None]:
    """Name every error that leaves this block by the line it crossed. The innermost boundary keeps its claim."""
    try:
        yield
    except (BoundaryError, EarlyEndError):
        raise
    except Exception as error:
        raise BoundaryError(name, describe(error)) from error
