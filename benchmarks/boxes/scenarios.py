"""What is measured of one arm. Runs in the arm's own process, next to its calls, so that no message is in a figure."""

import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from benchmarks.boxes import host
from benchmarks.boxes.contract import Arm, Box, Done
from benchmarks.boxes.crew import Outcomes, work

GIGABYTE = 2**30
ITEM_SECONDS = 120.0
"""After which a start, a command or a stop counts as failed."""
FLOOD_SECONDS = 60.0
BURST_SECONDS = 300.0
LIMIT_SECONDS = 1.0
"""Of the command that does not want to end."""
GRACE_SECONDS = 0.5
"""Before survivors are counted: a box that is being killed may take it."""


@dataclass
class Batch:
    """What one batch gave, as it travels to the benchmark."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    """By metric, in its unit."""
    failures: dict[str, list[str]] = field(default_factory=dict)
    """By metric, in words."""
    stuck: int = 0
    """Calls that never returned: the arm's process is of no more use."""

    def add(self, metric: str, outcomes: Outcomes[float]) -> None:
        self.samples.setdefault(metric, []).extend(outcomes.values)
        self.failures.setdefault(metric, []).extend(outcomes.failures)
        self.stuck += outcomes.stuck


SLEEPERS = 3
"""That stubborn() starts."""


class WrongEndError(Exception):
    """The arm said something else of a command than what was true."""


def first_commands(arm: Arm, at_once: int, count: int) -> Batch:
    """From asking for a box to the end of its first command; then its stop. In waves, each from a rested arm."""
    batch = Batch()
    for _ in range(max(1, count // at_once)):
        arm.settle(at_once)
        boxes: list[Box] = []
        starts = work([partial(_first, arm, boxes)] * at_once, at_once=at_once, seconds=ITEM_SECONDS)
        batch.add(f"first command, {at_once} at once", starts)
        stops = [partial(_seconds, box.stop) for box in boxes]
        batch.add(f"stop, {at_once} at once", work(stops, at_once=at_once, seconds=ITEM_SECONDS))
        if batch.stuck:
            break
    return batch


def round_trips(arm: Arm, count: int) -> Batch:
    batch = Batch()
    arm.settle(1)
    box = arm.start()
    _checked(box.run_true())
    direct = [partial(_seconds, lambda: _checked(box.run_true()))] * count
    batch.add("exec true", work(direct, at_once=1, seconds=ITEM_SECONDS))
    try:
        box.open_session()
    except NotImplementedError:
        box.stop()
        return batch
    in_session = [partial(_seconds, lambda: _checked(box.run_true_in_session()))] * count
    batch.add("exec true in session", work(in_session, at_once=1, seconds=ITEM_SECONDS))
    box.stop()
    return batch


def lifecycles(arm: Arm, at_once: int, count: int) -> Batch:
    """Start, three commands, stop. The sample is the wall time that each took of the whole."""
    arm.settle(at_once)
    begun = time.perf_counter()
    outcomes = work([partial(_lifecycle, arm)] * count, at_once=at_once, seconds=ITEM_SECONDS)
    share = (time.perf_counter() - begun) / max(1, len(outcomes.values))
    outcomes.values = [share] * len(outcomes.values)
    batch = Batch()
    batch.add(f"lifecycle, {at_once} at once", outcomes)
    return batch


def overshoots(arm: Arm, count: int) -> Batch:
    """How long past its limit a command holds its caller, and what of it then still lives."""
    batch = Batch()
    for _ in range(count):
        survivors: list[float] = []
        outcome = work([partial(_overshoot, arm, survivors)], at_once=1, seconds=ITEM_SECONDS / 4)
        batch.add("timeout overshoot", outcome)
        batch.samples.setdefault("survivors", []).extend(survivors)
    return batch


def flood(arm: Arm, size: int = GIGABYTE) -> Batch:
    """Growth of this process while a command prints, and the count that it is told."""
    batch = Batch()
    told: list[float] = []
    batch.add("growth at a flood of output", work([partial(_flood, arm, size, told)], at_once=1, seconds=FLOOD_SECONDS))
    batch.samples["count told of a flood"] = told
    return batch


def crowd(arm: Arm, count: int, engine: str = "") -> Batch:
    """Memory of each of many idle boxes: what all processes below this one take, and all of the Engine's."""
    batch = Batch()
    arm.settle(1)
    before = _memory_of_boxes(engine)
    boxes: list[Box] = []
    starts = work([partial(_first, arm, boxes)] * count, at_once=8, seconds=ITEM_SECONDS)
    grown = _memory_of_boxes(engine) - before
    starts.values = [grown / max(1, len(boxes))] * len(boxes)
    batch.add("memory of a live box", starts)
    work([box.stop for box in boxes], at_once=8, seconds=ITEM_SECONDS)
    return batch


def burst(arm: Arm, count: int) -> Batch:
    """All asked for in one moment: start, one command, stop."""
    batch = Batch()
    gauge = Gauge()
    arm.settle(1)
    begun = time.perf_counter()
    batch.add(
        "first command in a burst", work([partial(_in_burst, arm, gauge)] * count, at_once=count, seconds=BURST_SECONDS)
    )
    batch.samples["time of a burst"] = [time.perf_counter() - begun]
    batch.samples["most boxes at once in a burst"] = [float(gauge.most)]
    return batch


def hold(arm: Arm, count: int, marker: str) -> Batch:
    """Boxes that work, for the process to be killed under them."""
    batch = Batch()
    arm.settle(count)
    for number in range(count):
        threading.Thread(target=_hold, args=(arm, f"{marker}-{number}"), daemon=True).start()
    up = work([partial(_await, f"{marker}-{number}") for number in range(count)], at_once=count, seconds=ITEM_SECONDS)
    batch.add("held boxes", up)
    return batch


class Gauge:
    """How many at once, and the most there were."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self._lock = threading.Lock()

    def add(self, change: int) -> None:
        with self._lock:
            self.now += change
            self.most = max(self.most, self.now)


def _memory_of_boxes(engine: str) -> int:
    """engine: what every process of it has in its command line; shims of containers are nobody's children."""
    roots = [*host.descendants(os.getpid()), *(host.processes_with(engine) if engine else [])]
    return host.memory_of_trees(roots)


def _seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _checked(done: Done) -> Done:
    if done.exit_code != 0 or done.timed_out:
        raise WrongEndError(f"exit code {done.exit_code}, timed out: {done.timed_out}")
    return done


def _first(arm: Arm, boxes: list[Box]) -> float:
    """A box that is up goes to boxes, also where its command failed: it must be stopped."""
    begun = time.perf_counter()
    box = arm.start()
    boxes.append(box)
    _checked(box.run_true())
    return time.perf_counter() - begun


def _lifecycle(arm: Arm) -> float:
    box = arm.start()
    try:
        for _ in range(3):
            _checked(box.run_true())
    finally:
        box.stop()
    return 0.0


def _in_burst(arm: Arm, gauge: Gauge) -> float:
    begun = time.perf_counter()
    box = arm.start()
    gauge.add(1)
    try:
        _checked(box.run_true())
        return time.perf_counter() - begun
    finally:
        box.stop()
        gauge.add(-1)


def _overshoot(arm: Arm, survivors: list[float]) -> float:
    marker = f"assay-benchmark-{uuid.uuid4().hex}"
    box = arm.start()
    seen: list[int] = []
    look = threading.Timer(LIMIT_SECONDS * 0.7, lambda: seen.append(len(host.processes_with(marker))))
    try:
        box.prepare_limit()
        look.start()
        begun = time.perf_counter()
        done = box.run_limited(stubborn(marker), seconds=LIMIT_SECONDS)
        late = time.perf_counter() - begun - LIMIT_SECONDS
        if not done.timed_out:
            raise WrongEndError(f"a command past its limit ended with exit code {done.exit_code}")
        if sum(seen) < SLEEPERS:
            raise WrongEndError(f"of {SLEEPERS} sleepers {sum(seen)} were seen at work")
        time.sleep(GRACE_SECONDS)
    finally:
        look.cancel()
        survivors.append(float(host.kill_all_with(marker)))
        box.stop()
    return late


def stubborn(marker: str) -> str:
    """Three sleepers that ignore TERM: the command itself, one in a session of its own, and one whose parents ended."""
    ignore = "trap '' TERM HUP INT"
    sleep = f"exec -a {marker}-{{}} sleep 300"
    return "\n".join(
        [
            ignore,
            f"setsid bash -c '{sleep.format('session')}' >/dev/null 2>&1 &",
            f"(setsid bash -c '({sleep.format('orphan')}) >/dev/null 2>&1 &' &)",
            sleep.format("itself"),
        ]
    )


def _flood(arm: Arm, size: int, told: list[float]) -> float:
    box = arm.start()
    try:
        host.forget_peak()
        before = host.own_memory()
        done = _checked(box.run(f"head -c {size} /dev/zero | tr '\\0' x", seconds=FLOOD_SECONDS))
        told.append(float(done.output_bytes))
        return float(host.own_peak() - before)
    finally:
        box.stop()


def _hold(arm: Arm, marker: str) -> None:
    arm.start().run(f"exec -a {marker} sleep 300", seconds=300)


def _await(marker: str) -> float:
    begun = time.perf_counter()
    while not host.processes_with(marker):
        time.sleep(0.1)
    return time.perf_counter() - begun
