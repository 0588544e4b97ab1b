"""Boxes of random fate, sixteen at once, beside workers that are killed: nothing left, and no wrong end."""

import json
import random
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from benchmarks.result import Measurement, Result, Target
from sandbox_worker.sandbox.base import Backend
from tests.sandbox_worker.conformance.fates import Report
from tests.sandbox_worker.conformance.worker import Worker
from tests.sandbox_worker.processes import until
from tests.sandbox_worker.sandbox.boxes import MEGABYTE, groups_of

STEADY_THREADS, VICTIM_THREADS = 12, 4
GROWTH_BYTES = 8 * MEGABYTE


class Soak:
    """One steady worker to its end, and one after the other that is killed."""

    def __init__(self, backend: Backend, worker: Worker, boxes: int) -> None:
        self.report = Report()
        self.victims: list[subprocess.Popen[str]] = []
        self._backend = backend
        self._worker = worker
        self._boxes = boxes
        self._random = random.Random(boxes)

    def run(self) -> None:
        steady = self._worker.start("fates", str(self._boxes), "1", str(STEADY_THREADS))
        reader = threading.Thread(target=self._read, args=(steady,))
        reader.start()
        while reader.is_alive():
            self._kill_one()
        reader.join()
        assert steady.wait() == 0
        until(lambda: self._backend.reap() == 0, seconds=30)

    def _read(self, steady: "subprocess.Popen[str]") -> None:
        assert steady.stdout is not None
        for line in steady.stdout:
            if line.startswith("{"):
                self.report = Report(**json.loads(line))

    def _kill_one(self) -> None:
        victim = self._worker.start("fates", "100000", str(len(self.victims)), str(VICTIM_THREADS))
        time.sleep(self._random.uniform(0.2, 3))
        victim.kill()
        victim.wait()
        self.victims.append(victim)


@pytest.fixture(scope="session")
def results() -> Iterator[dict[str, Report]]:
    """Written when all long soaks are over."""
    found: dict[str, Report] = {}
    yield found
    if found:
        write(found)


def write(found: dict[str, Report]) -> None:
    rows, targets = [], []
    for arm, report in found.items():
        boxes = sum(report.ended.values()) - len(report.wrong)
        rows += [
            Measurement("boxes that ended as they must", arm, boxes, "boxes", boxes, failures=len(report.wrong)),
            Measurement("growth of the worker's memory", arm, report.growth_bytes / MEGABYTE, "MiB", boxes),
        ]
        targets.append(Target(f"wrong endings, {arm}", len(report.wrong), "boxes", 0, not report.wrong))
        growth = report.growth_bytes
        targets.append(
            Target(f"growth, {arm}", growth / MEGABYTE, "MiB", GROWTH_BYTES / MEGABYTE, growth < GROWTH_BYTES)
        )
    Result("soak", rows, targets).write()


def soak(backend: Backend, worker: Worker, boxes: int) -> Report:
    soaking = Soak(backend, worker, boxes)
    soaking.run()
    assert len(soaking.victims) >= 2
    assert [group for victim in soaking.victims for group in groups_of(victim.pid)] == []
    assert soaking.report.wrong == []
    assert sum(soaking.report.ended.values()) == boxes
    assert soaking.report.broken == []
    assert soaking.report.growth_bytes < GROWTH_BYTES
    return soaking.report


def test_a_hundred_boxes_of_random_fate(backend: Backend, worker: Worker) -> None:
    soak(backend, worker, boxes=100)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_two_thousand_boxes_of_random_fate(backend: Backend, worker: Worker, results: dict[str, Report]) -> None:
    results[worker.kind] = soak(backend, worker, boxes=2000)
