import threading
import time
from collections.abc import Callable

from benchmarks.boxes.crew import work


def raising(words: str) -> Callable[[], int]:
    def job() -> int:
        raise RuntimeError(words)

    return job


def test_values_and_failures_are_all_counted() -> None:
    found = work([lambda: 1, raising("no"), lambda: 2], at_once=2, seconds=10)
    assert (sorted(found.values), found.failures, found.stuck) == ([1, 2], ["RuntimeError: no"], 0)


def test_what_never_returns_is_a_failure_and_holds_nobody() -> None:
    release = threading.Event()
    found = work([lambda: int(release.wait(60)), lambda: 1], at_once=2, seconds=0.2)
    release.set()
    assert (found.values, len(found.failures), found.stuck) == ([1], 1, 1)


def test_no_more_than_asked_work_at_once() -> None:
    now, most = [0], [0]
    lock = threading.Lock()

    def job() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1

    work([job] * 12, at_once=3, seconds=10)
    assert most == [3]
