"""Boxes of random fate, many at once, and how each must end."""

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

import psutil

from sandbox_worker.sandbox.base import Backend, Box, BoxKilledError, BoxSpec, End, Limits, SandboxError

_TAKE = "x = bytearray(1 << 28); x[::4096] = bytes(len(x[::4096]))"
_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Fate:
    name: str
    end: End
    command: list[str]
    seconds: float = 60.0
    limits: Limits = field(default_factory=Limits)
    then: Callable[[Box], None] | None = None
    """What another thread does to the box while the command runs."""


def shell(script: str) -> list[str]:
    return ["bash", "-c", script]


FATES = (
    Fate("success", End.EXITED, shell("head -c 1M /dev/zero > file; sha256sum file; seq 10000")),
    Fate("timeout", End.TIMED_OUT, shell("trap '' TERM; setsid -f sleep 60; sleep 60"), seconds=0.5),
    Fate("memory", End.OUT_OF_MEMORY, ["python3", "-c", _TAKE], limits=Limits(memory_bytes=48 * 2**20)),
    Fate("fork bomb", End.PID_LIMIT, shell(":(){ :|:& };: 2>/dev/null; sleep 60"), seconds=2, limits=Limits(pids=32)),
    Fate("disk", End.DISK_FULL, shell("cat /dev/zero > file"), limits=Limits(disk_bytes=2**20)),
    Fate("output", End.OUTPUT_LIMIT, shell("yes"), limits=Limits(output_bytes=1000, printed_bytes=2**20)),
    Fate(
        "cancelled", End.CANCELLED, shell("trap '' TERM; setsid -f sleep 60; sleep 60"), then=lambda box: box.cancel()
    ),
    Fate("killed", End.CANCELLED, shell("setsid -f sleep 60; sleep 60"), then=lambda box: box.kill()),
    Fate("signalled", End.SIGNALLED, shell("kill -SEGV $$")),
)


@dataclass
class Report:
    """What a worker says in the end."""

    ended: dict[str, int] = field(default_factory=dict)
    """By fate where it ended as it must, else by wrong or broken."""
    wrong: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Without an end, for our machinery broke: what it said."""
    growth_bytes: int = 0
    """Of the worker's memory, after a first third of its boxes."""


def lead(backend: Backend, count: int, seed: int, threads: int) -> None:
    """Says a line for each box, and the report in the last."""
    chosen = random.Random(seed)
    fates = [chosen.choice(FATES) for _ in range(count)]
    report, warm = Report(), 0
    with ThreadPoolExecutor(threads) as pool:
        for number, line in enumerate(pool.map(lambda fate: live(backend, fate, report), fates)):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
            report.ended[line] = report.ended.get(line, 0) + 1
            if number == count // 3:
                warm = psutil.Process().memory_info().rss
    report.growth_bytes = psutil.Process().memory_info().rss - warm
    sys.stdout.write(json.dumps(asdict(report)) + "\n")


def live(backend: Backend, fate: Fate, report: Report) -> str:
    try:
        end = end_of(backend, fate)
    except SandboxError as error:
        report.broken.append(f"{fate.name}: {type(error).__name__}: {error}")
        return "broken"
    if end is not fate.end:
        report.wrong.append(f"{fate.name} ended as {end}")
        return "wrong"
    return fate.name


def end_of(backend: Backend, fate: Fate) -> End:
    box = backend.start(BoxSpec(limits=fate.limits, label="9.9.2"))
    other = threading.Timer(0.3, interfere, (box, fate))
    try:
        other.start()
        return box.run(fate.command, timeout=fate.seconds).end
    except BoxKilledError as error:
        return error.end
    finally:
        other.join()
        stop(box)


def interfere(box: Box, fate: Fate) -> None:
    try:
        if fate.then:
            fate.then(box)
    except SandboxError:
        return  # the Engine is away: whoever runs a command in the box is told


def stop(box: Box) -> None:
    """Again, where the Engine is away just now. Raises SandboxError."""
    deadline = time.monotonic() + _STOP_SECONDS
    while True:
        try:
            return box.stop()
        except SandboxError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
