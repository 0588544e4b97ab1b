"""Many jobs by a few threads, with a time limit: what fails or never returns is counted, and hangs nobody."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Outcomes(Generic[T]):
    values: list[T] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """In words, one for each job that gave no value."""
    stuck: int = 0
    """Of those, the ones that still run."""


def work(jobs: Sequence[Callable[[], T]], *, at_once: int, seconds: float) -> Outcomes[T]:
    """seconds: of wall time for all of them."""
    waiting: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    values: queue.SimpleQueue[T] = queue.SimpleQueue()
    failures: queue.SimpleQueue[str] = queue.SimpleQueue()
    deadline = time.monotonic() + seconds
    # Daemons: a peer's call that never returns must not keep this process.
    threads = [
        threading.Thread(target=_serve, args=(waiting, values, failures, deadline), daemon=True)
        for _ in range(min(at_once, len(jobs)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    outcomes = Outcomes(_drained(values), _drained(failures))
    missing = len(jobs) - len(outcomes.values) - len(outcomes.failures)
    outcomes.failures += [f"no answer within {seconds:.0f} s"] * missing
    outcomes.stuck = missing
    return outcomes


def _serve(
    waiting: "queue.SimpleQueue[Callable[[], T]]",
    values: "queue.SimpleQueue[T]",
    failures: "queue.SimpleQueue[str]",
    deadline: float,
) -> None:
    while time.monotonic() < deadline:
        try:
            job = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            values.put(job())
        except Exception as error:  # noqa: BLE001 (a failure of the arm is a figure of the arm)
            failures.put(f"{type(error).__name__}: {error}"[:500])


def _drained(source: "queue.SimpleQueue[T]") -> list[T]:
    found = []
    while not source.empty():
        found.append(source.get())
    return found
