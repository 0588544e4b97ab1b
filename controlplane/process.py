"""What the supervisor must know of one process. A value; nothing runs here."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Process:
    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the supervisor's own."""
    folder: Path | None = None
    """Where it runs; the supervisor's own if None."""
    uid: int | None = None
    gid: int | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    """Also what the kernel sends it when the supervisor dies."""
    before: Callable[[], None] | None = None
    """Done before each start, also before a restart."""
    after: Callable[[], None] | None = None
    """Done once it is stopped for good. Safe to call when it never ran."""
    ready: Callable[[], bool] | None = None
    """Asked again until true; None: ready once started."""
    ready_seconds: float = 60.0
    gate: bool = False
    """What stands after it starts only once it is ready, and is gone before it is stopped."""
    once: bool = False
    """A step, not a service: it must end with exit code 0, and is never started again."""
    keep_output: bool = True
    """False: what it prints is shown, and no file gets it."""
